"""Handles OFFSET_OUT_OF_RANGE at a follower: asks the leader for its log start and log end offset, then
truncates the follower's log or starts it over."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.controller_client.controller_channel import Sender
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.partitions.replica import Replica
from barnabas.client.network.connection import ChannelError
from barnabas.ports import Ports
from barnabas.replication.follower import FollowerState, resolve_out_of_range
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST_LOCAL = -4
PURPOSE = "replica-offsets"

Resume = Callable[[float], None]
"""Called to fetch again after a delay in milliseconds."""
Fail = Callable[[str], None]
"""Called with the reason why the partition cannot be fetched."""


class OutOfRangeResolver:
    """Brings a follower's log back into its leader's range. Source: Kafka's
    AbstractFetcherThread.fetchOffsetAndTruncate."""

    def __init__(self, ports: Ports, channels: Sender, node_id: int, backoff_ms: float) -> None:
        self._ports = ports
        self._channels = channels
        self._node_id = node_id
        self._backoff_ms = backoff_ms

    def resolve(
        self,
        leader: Endpoint | None,
        partition: Partition,
        state: FollowerState,
        is_wanted: Callable[[], bool],
        resume: Resume,
        fail: Fail,
    ) -> None:
        """Ask `leader` for its range and adapt the log. Calls `resume` or `fail` once, or neither if
        `is_wanted` is false when the answer arrives. An unknown `leader` is tried again after a backoff."""

        def on_range(found: LeaderRange | None) -> None:
            if not is_wanted():
                return
            if found is None:
                resume(self._backoff_ms)
            else:
                self._resolve(found, partition, state, resume, fail)

        if leader is None:
            on_range(None)
        else:
            ask_leader_range(self._channels, leader, self._node_id, partition, on_range)

    def _resolve(
        self,
        leader: LeaderRange,
        partition: Partition,
        state: FollowerState,
        resume: Resume,
        fail: Fail,
    ) -> None:
        log = partition.log
        if log is None:
            return
        matching_end = log.log_end_offset
        if log.last_epoch > partition.leader_epoch:
            _, matching_end = log.epochs.end_of(partition.leader_epoch, matching_end)
        action = resolve_out_of_range(log.log_end_offset, matching_end, leader.start, leader.end)
        self._ports.log(
            "warning",
            "fetcher.out_of_range",
            partition=str(partition.name),
            end=log.log_end_offset,
            leader_start=leader.start,
            leader_end=leader.end,
        )
        try:
            if action.truncate_to is not None:
                partition.truncate(action.truncate_to)
            elif action.start_at is not None:
                partition.start_over_at(action.start_at)
        except KafkaError as error:
            if partition.log is None:
                fail(str(error))
            else:  # a corrupt batch is being repaired
                resume(self._backoff_ms)
            return
        state.moved_to(log.log_end_offset, log.last_epoch)
        resume(0.0)


class LeaderRange(NamedTuple):
    """The leader's log start offset and log end offset."""

    start: int
    end: int


def ask_leader_range(
    channels: Sender,
    leader: Endpoint,
    me: int,
    replica: Replica,
    on_range: Callable[[LeaderRange | None], None],
) -> None:
    """Ask `leader` for the range of `replica`'s partition, in the leader epoch known here. `on_range` gets
    None if the leader did not answer or answered with an error."""

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
