"""Tools read and set the offsets of share groups here, and have members of groups leave.

Source: KIP-932, KIP-1226 (lag of share groups), KIP-345 (removeMembersFromConsumerGroup).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.client.client import GROUP, Client, raise_for
from barnabas.client.groups import CLASSIC, CONSUMER, SHARE, DescribedMember
from barnabas.client.operations import Refusals
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import KafkaError, code_of
from barnabas.wire.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from barnabas.wire.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.wire.schema import Message

LEAVES = -1
"""The epoch of a member's last heartbeat."""


class ShareStart(NamedTuple):
    """The offset from which a share group has not acknowledged everything; `lag` is None where the broker
    does not tell it."""

    offset: int
    lag: int | None


async def share_starts(client: Client, group_id: str) -> dict[TopicPartition, ShareStart]:
    """The start offsets of a share group, of every partition that it has begun. Raises `KafkaError`."""

    def request() -> DescribeShareGroupOffsetsRequest:
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        return DescribeShareGroupOffsetsRequest(groups=[group])

    def check(response: Any) -> None:
        for group in response.groups:
            raise_for(group.error_code, group.error_message)

    response = await client.ask_coordinator(GROUP, group_id, request, check)
    return {
        TopicPartition(topic.topic_name, one.partition_index): ShareStart(
            one.start_offset, one.lag if one.lag >= 0 else None
        )
        for group in response.groups
        for topic in group.topics
        for one in topic.partitions
        if not one.error_code and one.start_offset >= 0
    }


async def alter_share_starts(
    client: Client, group_id: str, starts: Mapping[TopicPartition, int]
) -> None:
    """Have a share group without members begin at these offsets. Raises `KafkaError`."""

    def request() -> AlterShareGroupOffsetsRequest:
        topics = by_topic(
            (
                tp.topic,
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=tp.partition, start_offset=offset
                ),
            )
            for tp, offset in starts.items()
        )
        return AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)
                for name, parts in topics.items()
            ],
        )

    def check(response: Any) -> None:
        raise_for(response.error_code, response.error_message)
        for topic in response.responses:
            for one in topic.partitions:
                raise_for(one.error_code, one.error_message)

    await client.ask_coordinator(GROUP, group_id, request, check)


async def delete_share_starts(client: Client, group_id: str, topics: Sequence[str]) -> Refusals:
    """Have a share group forget whole topics. The refusals are by topic, in partition -1. Raises
    `KafkaError`."""

    def request() -> DeleteShareGroupOffsetsRequest:
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        return DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named)

    response = await client.ask_coordinator(
        GROUP, group_id, request, lambda r: raise_for(r.error_code, r.error_message)
    )
    return {
        TopicPartition(topic.topic_name, -1): _refusal(topic.error_code, topic.error_message)
        for topic in response.responses
    }


async def remove_member(
    client: Client, group_id: str, member: DescribedMember, reason: str
) -> None:
    """Have a member leave, as it would itself: a static member of a classic group by its instance id, one
    that heartbeats to the coordinator by a last heartbeat. Raises `KafkaError`."""
    member_id, instance_id = member.member_id, member.instance_id
    if member.kind == CLASSIC:
        identity = MemberIdentity(
            member_id="" if instance_id else member_id,
            group_instance_id=instance_id,
            reason=reason,
        )
        message: Message = LeaveGroupRequest(group_id=group_id, members=[identity])
    elif member.kind == CONSUMER:
        message = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=LEAVES
        )
    elif member.kind == SHARE:
        message = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=LEAVES
        )
    else:
        message = StreamsGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=LEAVES
        )

    def check(response: Any) -> None:
        raise_for(response.error_code, getattr(response, "error_message", None))
        for answer in getattr(response, "members", ()):
            raise_for(answer.error_code)

    await client.ask_coordinator(GROUP, group_id, lambda: message, check)


def _refusal(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(code_of(code), message or "") if code else None
