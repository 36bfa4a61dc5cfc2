"""Asks leaders for the end offsets of partitions, for the lag of share groups.

Source: Kafka's ``NetworkPartitionMetadataClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from barnabas.broker.roles import ShareGroupRole
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LATEST = -1
CONSUMER = -1
Place = tuple[str, int]
"""Topic name and partition."""
Ends = dict[Place, "int | KafkaError"]


def ask_end_offsets(
    role: ShareGroupRole, places: Iterable[Place], on_done: Callable[[Ends], None]
) -> None:
    """`on_done` gets the high watermark of each place, or the error."""
    ends: Ends = {}
    by_leader: dict[int, list[Place]] = {}
    for name, index in places:
        topic = role.image.topics_by_name.get(name)
        leader = topic.leader[index] if topic is not None and topic.has(index) else -1
        if leader < 0:
            ends[name, index] = _unknown("the partition has no leader")
        else:
            by_leader.setdefault(leader, []).append((name, index))
    left = len(by_leader)
    if not left:
        on_done(ends)
        return

    def answered(asked: list[Place], answer: Any) -> None:
        nonlocal left
        left -= 1
        ends.update(_ends_of(asked, answer))
        if not left:
            on_done(ends)

    for leader, asked in by_leader.items():
        role.transactions.peers.send(
            leader, _request(asked), partial(answered, asked), purpose="share state"
        )


def _request(asked: list[Place]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in asked:
        part = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=-1, timestamp=LATEST
        )
        topics.setdefault(name, []).append(part)
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=0,
        topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )


def _ends_of(asked: list[Place], answer: Any) -> Ends:
    if isinstance(answer, ChannelError):
        return dict.fromkeys(asked, _unknown(str(answer)))
    ends: Ends = {}
    for topic in answer.topics:
        for part in topic.partitions:
            place = (topic.name, part.partition_index)
            code = part.error_code
            ends[place] = KafkaError(ErrorCode(code), "") if code else part.offset
    return ends


def _unknown(why: str) -> KafkaError:
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, why)
