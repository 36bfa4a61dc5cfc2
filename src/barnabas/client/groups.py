"""Groups of every kind, as their coordinators describe them.

Source: Kafka protocol guide; KIP-848 (ConsumerGroupDescribe), KIP-932 (ShareGroupDescribe), KIP-1071
(StreamsGroupDescribe), KIP-1043.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.client import GROUP, Client, raise_for
from barnabas.client.network.connection import ChannelError
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.wire.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.wire.messages.share_group_describe_request import ShareGroupDescribeRequest
from barnabas.wire.messages.streams_group_describe_request import StreamsGroupDescribeRequest

DEAD = "Dead"
CONSUMER_MEMBER = 1
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
"""Kinds of group, as ListGroups names them."""


@dataclass(slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(slots=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes
    kind: str = "classic"
    """The protocol that it speaks."""
    epoch: int = -1
    """The epochs and assignments of members of a consumer group: how far they are, what they have and
    shall have."""
    assigned: list[TopicPartition] = field(default_factory=list)
    target: list[TopicPartition] = field(default_factory=list)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    """Tasks of a member of a streams group by role (active, standby, warm-up): ``SUBTOPOLOGY_PARTITION``."""
    target_tasks: dict[str, list[str]] = field(default_factory=dict)
    """The tasks that it shall have."""


@dataclass(slots=True)
class GroupDescription:
    group_id: str
    state: str
    protocol_type: str
    protocol: str
    """The protocol of a classic group; the assignor of a consumer group."""
    members: list[DescribedMember]
    type: str = "classic"
    epoch: int = -1
    """The epoch of a consumer group."""
    assignment_epoch: int = -1


async def describe(client: Client, group_id: str) -> GroupDescription:
    """The group of this name, of whatever kind it is. Raises `KafkaError`."""
    dead: GroupDescription | None = None
    missing: KafkaError | None = None
    for ask in (_describe_classic, _describe_consumer, _describe_share, _describe_streams):
        try:
            found = await ask(client, group_id)
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND and (missing is None and dead is None):
                raise
            missing = missing or error
        except ChannelError as error:
            if error.kind != "unsupported" or (missing is None and dead is None):
                raise  # brokers of old know of no such kind
        else:
            if found.state != DEAD:
                return found
            dead = (
                dead or found
            )  # brokers and clients of old say of a missing group that it is dead
    if dead is not None:
        return dead
    assert missing is not None
    raise missing


async def _describe_classic(client: Client, group_id: str) -> GroupDescription:
    response = await client.ask_coordinator(
        GROUP, group_id, lambda: DescribeGroupsRequest(groups=[group_id]), _check
    )
    g = response.groups[0]
    members = [
        DescribedMember(
            m.member_id, m.group_instance_id, m.client_id, m.client_host,
            m.member_metadata, m.member_assignment,
        )
        for m in g.members
    ]  # fmt: skip
    return GroupDescription(g.group_id, g.group_state, g.protocol_type, g.protocol_data, members)


async def _describe_consumer(client: Client, group_id: str) -> GroupDescription:
    response = await client.ask_coordinator(
        GROUP, group_id, lambda: ConsumerGroupDescribeRequest(group_ids=[group_id]), _check
    )
    g = response.groups[0]
    members = [
        DescribedMember(
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            b"",
            b"",
            kind="consumer" if m.member_type == CONSUMER_MEMBER else "classic",
            epoch=m.member_epoch,
            assigned=_partitions(m.assignment),
            target=_partitions(m.target_assignment),
        )
        for m in g.members
    ]
    return GroupDescription(
        g.group_id,
        g.group_state,
        "consumer",
        g.assignor_name,
        members,
        type="consumer",
        epoch=g.group_epoch,
        assignment_epoch=g.assignment_epoch,
    )


async def _describe_share(client: Client, group_id: str) -> GroupDescription:
    response = await client.ask_coordinator(
        GROUP, group_id, lambda: ShareGroupDescribeRequest(group_ids=[group_id]), _check
    )
    g = response.groups[0]
    members = [
        DescribedMember(
            m.member_id, None, m.client_id, m.client_host, b"", b"", SHARE, m.member_epoch,
            _partitions(m.assignment), _partitions(m.assignment),
        )
        for m in g.members
    ]  # fmt: skip
    return GroupDescription(
        g.group_id, g.group_state, SHARE, g.assignor_name, members, SHARE, g.group_epoch,
        g.assignment_epoch,
    )  # fmt: skip


async def _describe_streams(client: Client, group_id: str) -> GroupDescription:
    response = await client.ask_coordinator(
        GROUP, group_id, lambda: StreamsGroupDescribeRequest(group_ids=[group_id]), _check
    )
    g = response.groups[0]
    subtopologies = () if g.topology is None else g.topology.subtopologies or ()
    sources = {
        s.subtopology_id: [*s.source_topics, *(t.name for t in s.repartition_source_topics)]
        for s in subtopologies
    }
    members = [
        DescribedMember(
            m.member_id, m.instance_id, m.client_id, m.client_host, b"", b"", STREAMS,
            m.member_epoch, _tasks(m.assignment, sources), _tasks(m.target_assignment, sources),
            tasks_by_role(m.assignment), tasks_by_role(m.target_assignment),
        )
        for m in g.members
    ]  # fmt: skip
    return GroupDescription(
        g.group_id, g.group_state, STREAMS, g.assignor_name or "", members, STREAMS, g.group_epoch,
        g.assignment_epoch,
    )  # fmt: skip


def _tasks(assignment: Any, sources: Mapping[str, list[str]]) -> list[TopicPartition]:
    """The partitions that active tasks read."""
    return [
        TopicPartition(topic, index)
        for task in assignment.active_tasks
        for topic in sources.get(task.subtopology_id, ())
        for index in task.partitions
    ]


def tasks_by_role(assignment: Any) -> dict[str, list[str]]:
    """The tasks of a member of a streams group, without roles in which it has none."""
    roles = {
        "active": assignment.active_tasks,
        "standby": assignment.standby_tasks,
        "warm-up": assignment.warmup_tasks,
    }
    return {
        role: [f"{task.subtopology_id}_{index}" for task in tasks for index in task.partitions]
        for role, tasks in roles.items()
        if tasks
    }


def _partitions(assignment: Any) -> list[TopicPartition]:
    return [
        TopicPartition(part.topic_name, index)
        for part in assignment.topic_partitions
        for index in part.partitions
    ]


def _check(response: Any) -> None:
    for group in response.groups:
        raise_for(group.error_code, group.error_message)
