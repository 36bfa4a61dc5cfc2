"""Requests whose structure is another one in older versions, for clients that are bound to those.

What differs by fields only is the codec's concern. Sans-IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from barnabas.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

Newest: TypeAlias = Mapping[int, int]
"""The newest version to speak, by API key; of others the newest there is."""
MANY_KEYS_SINCE = 4
MANY_GROUPS_SINCE = 8
STABLE_SINCE = 7
MEMBERS_SINCE = 3
_NO_BOUND = 1 << 15
ONE_KEY: Newest = {ApiKey.FIND_COORDINATOR: MANY_KEYS_SINCE - 1}
"""Binds FindCoordinator to the form that brokers before Kafka 3.0 serve."""


def find_coordinator(newest: Newest, kind: int, key: str) -> FindCoordinatorRequest:
    if newest.get(ApiKey.FIND_COORDINATOR, _NO_BOUND) < MANY_KEYS_SINCE:
        return FindCoordinatorRequest(key_type=kind, key=key)
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])


def coordinators_of(response: FindCoordinatorResponse, key: str) -> Sequence[Coordinator]:
    """Those that the answer names; before version 4 the one it is about."""
    if response.coordinators:
        return response.coordinators
    return [
        Coordinator(
            key=key,
            node_id=response.node_id,
            host=response.host,
            port=response.port,
            error_code=response.error_code,
            error_message=response.error_message,
        )
    ]


def leave_group(newest: Newest, group_id: str, member_id: str) -> LeaveGroupRequest:
    if newest.get(ApiKey.LEAVE_GROUP, _NO_BOUND) < MEMBERS_SINCE:
        return LeaveGroupRequest(group_id=group_id, member_id=member_id)
    return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])


def fetch_offsets(newest: Newest, group: OffsetFetchRequestGroup) -> OffsetFetchRequest:
    version = newest.get(ApiKey.OFFSET_FETCH, _NO_BOUND)
    if version >= MANY_GROUPS_SINCE:
        return OffsetFetchRequest(groups=[group], require_stable=True)
    topics = None
    if group.topics is not None:
        topics = [
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in group.topics
        ]
    return OffsetFetchRequest(
        group_id=group.group_id, topics=topics, require_stable=version >= STABLE_SINCE
    )


def offsets_of(response: OffsetFetchResponse, group_id: str) -> OffsetFetchResponseGroup:
    """The part of the answer about the group; before version 8 it is about no other one."""
    if response.groups:
        return response.groups[0]
    topics: Sequence[Any] = response.topics  # the fields that there are have the same names
    return OffsetFetchResponseGroup(
        group_id=group_id, error_code=response.error_code, topics=topics
    )
