"""Where a leader's log begins and ends: what a follower asks that fetched outside of it.

Two questions by ListOffsets, one after the other; one answer, or none where either failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.controller_client.controller_channel import Sender
from barnabas.broker.partitions.replica import Replica
from barnabas.client.network.connection import ChannelError
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST_LOCAL = -4
PURPOSE = "replica-offsets"


class LeaderRange(NamedTuple):
    start: int
    end: int


def ask_leader_range(
    channels: Sender,
    leader: Endpoint,
    me: int,
    replica: Replica,
    on_range: Callable[[LeaderRange | None], None],
) -> None:
    """Ask `leader` for the range of `replica`'s partition, in the leader epoch known here."""

    def ask(timestamp: int, then: Callable[[int | None], None]) -> None:
        asked = ListOffsetsPartition(
            partition_index=replica.index,
            current_leader_epoch=replica.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=me, topics=[ListOffsetsTopic(name=replica.topic, partitions=[asked])]
        )
        channels.send(leader, request, lambda response: then(_offset_in(response)), purpose=PURPOSE)

    def on_end(end: int | None) -> None:
        if end is None:
            on_range(None)
        else:
            ask(
                EARLIEST_LOCAL,
                lambda start: on_range(None if start is None else LeaderRange(start, end)),
            )

    ask(LATEST, on_end)


def _offset_in(response: ListOffsetsResponse | ChannelError) -> int | None:
    if isinstance(response, ChannelError):
        return None
    for topic in response.topics:
        for answer in topic.partitions:
            if answer.error_code == ErrorCode.NONE:
                return answer.offset
    return None
