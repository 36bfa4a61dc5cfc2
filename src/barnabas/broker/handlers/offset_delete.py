"""OffsetDelete.

Behaviour: deletes a group's committed offsets of existing partitions (KIP-496). GROUP_SUBSCRIBED_TO_TOPIC
for a topic that a member subscribes to; NON_EMPTY_GROUP for a group with members of another protocol type
than ``consumer``.

Version notes: there is only version 0.
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, check_group_id, write_group
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.OFFSET_DELETE,
    OffsetDeleteRequest,
    top_level_error(OffsetDeleteResponse),
    "group",
    "delete",
)


def handle(
    request: OffsetDeleteRequest, ctx: RequestContext, role: GroupRole
) -> OffsetDeleteResponse | Parked:
    if code := check_group_id(request.group_id):
        return OffsetDeleteResponse(error_code=code)
    missing: dict[str, list[OffsetDeleteResponsePartition]] = {}
    accepted = []
    for topic in request.topics:
        known = role.image.topics_by_name.get(topic.name)
        good = []
        for part in topic.partitions:
            if known is not None and known.has(part.partition_index):
                good.append(part)
            else:
                missing.setdefault(topic.name, []).append(_unknown(part.partition_index))
        if good:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=good))
    wanted = OffsetDeleteRequest(group_id=request.group_id, topics=accepted)

    def delete(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.delete_offsets(wanted)

    def refused(error: KafkaError) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=error.code)

    def merge(response: Message) -> Message:
        assert isinstance(response, OffsetDeleteResponse)
        for topic in response.topics:
            topic.partitions = [*topic.partitions, *missing.pop(topic.name, ())]
        rest = [
            OffsetDeleteResponseTopic(name=name, partitions=parts)
            for name, parts in missing.items()
        ]
        response.topics = [*response.topics, *rest]
        return response

    return write_group(role, request.group_id, delete, refused, merge)


def _unknown(index: int) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(
        partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
