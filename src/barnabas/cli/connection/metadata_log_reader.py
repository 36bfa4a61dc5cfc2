"""Reads the metadata log of a running cluster from the quorum's leader, like an observer.

`MetadataLogReader` finds the leader through any broker (DescribeQuorum), or through named controllers. It
fetches from the leader's controller listener with replica id -1, which the quorum does not count: first the
snapshot at the log's start, then the log up to the high watermark. If the leader changes, the reader finds
the new one. `events_in` turns a range of the log into events.

Sources: KIP-595 (Fetch), KIP-630 (FetchSnapshot), KIP-853 (the voters' listeners in DescribeQuorum).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.cli.connection.voter_events import VoterEvents
from barnabas.cli.failure import Failure
from barnabas.client.client import raise_for
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.metadata.views.cluster_events import ClusterEvent, EventReader
from barnabas.raft.core.batches import batch_values, control_records, iter_runs
from barnabas.raft.core.messages import (
    FetchRequest,
    FetchResponse,
    SnapshotRequest,
    SnapshotResponse,
)
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.snapshot_files import read_checkpoint
from barnabas.raft.wire.wire_mapping import request_to_wire, response_from_wire
from barnabas.record.batch import HEADER
from barnabas.types import METADATA_TOPIC, Buffer, Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.leader_change_message import LeaderChangeMessage

OBSERVER = ReplicaKey(-1)
UNREACHABLE = 3
FETCH_BYTES = 8 * 1024 * 1024
SEARCHES_MAX = 5
"""Searches in a row for a leader that answers, before the reader gives up."""
SEARCH_PAUSE_MS = 500.0
REQUEST_TIMEOUT_MS = 10_000.0
MOVED_ERRORS = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.SNAPSHOT_NOT_FOUND,
)


class NoMetadataLog(Failure):
    """The cluster has no quorum: ZooKeeper coordinates it."""


class FoundQuorum(NamedTuple):
    """The quorum's leader, its epoch, and every voter's controller endpoint."""

    leader: int
    epoch: int
    controllers: dict[int, Endpoint]


def find_quorum(connected: Connected) -> FoundQuorum:
    """Describe the quorum through a broker. Raises `KafkaError`, `ChannelError`, and `NoMetadataLog` if the
    cluster has no quorum."""

    def request() -> DescribeQuorumRequest:
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
        return DescribeQuorumRequest(topics=[topic])

    def check(response: Any) -> None:
        raise_for(response.error_code, response.error_message)
        for topic in response.topics:
            for partition in topic.partitions:
                raise_for(partition.error_code, partition.error_message)

    try:
        answer = connected.call(connected.client.ask_any(request, check))
    except ChannelError as error:
        if error.kind == "unsupported":
            raise NoMetadataLog(
                "this cluster has no metadata log: ZooKeeper coordinates it"
            ) from error
        raise
    return found_quorum(answer)


def found_quorum(answer: Any) -> FoundQuorum:
    """The quorum in a `DescribeQuorumResponse`."""
    part = answer.topics[0].partitions[0]
    controllers = {
        node.node_id: Endpoint(node.listeners[0].host, node.listeners[0].port)
        for node in sorted(answer.nodes, key=lambda node: node.node_id)
        if node.listeners
    }
    return FoundQuorum(part.leader_id, part.leader_epoch, controllers)


class MetadataLogReader:
    """Reads the log continuously. `offset` is the next offset to read."""

    def __init__(
        self, connected: Connected, find: Callable[[Connected], FoundQuorum] = find_quorum
    ) -> None:
        """`find` is asked for the leader, again whenever that moves."""
        self._connected = connected
        self._find = find
        self.quorum = find(connected)
        self.offset = 0
        self._last_epoch = 0
        self.high_watermark = -1
        self._voters = VoterEvents()
        self._searches = 0

    @property
    def at_end(self) -> bool:
        return self.offset >= self.high_watermark >= 0

    def read(self, reader: EventReader, wait_ms: int = 0) -> list[ClusterEvent]:
        """Read the next committed records, feed them to `reader` and return their events. Waits up to
        `wait_ms` for new records. A snapshot has no events; it only replaces the reader's image. Raises
        `Failure`, `KafkaError`, `ChannelError`."""
        asked = FetchRequest(
            self.quorum.epoch, OBSERVER, self.offset, self._last_epoch, wait_ms, FETCH_BYTES,
            self.high_watermark,
        )  # fmt: skip
        answer = self._ask(asked, wait_ms)
        if not isinstance(answer, FetchResponse):
            return []
        if answer.snapshot is not None:
            self._load(reader, answer.snapshot)
            return []
        if answer.diverging is not None:
            raise Failure("this is another cluster than before: the metadata logs differ")
        self.high_watermark = max(self.high_watermark, answer.high_watermark)
        assert not isinstance(answer.records, tuple)
        stretch = Stretch(answer.records, self.offset, self.high_watermark)
        events = list(events_in(reader, stretch, self._voters))
        self.offset, self._last_epoch = stretch.offset, max(stretch.epoch, self._last_epoch)
        return events

    def _load(self, reader: EventReader, at: OffsetAndEpoch) -> None:
        """Load the leader's snapshot, which has everything before `at`."""
        parts: list[Buffer] = []
        position = 0
        while True:
            asked = SnapshotRequest(self.quorum.epoch, OBSERVER, at, position, FETCH_BYTES)
            answer = self._ask(asked)
            if not isinstance(answer, SnapshotResponse):
                return  # asked again from the beginning, of the new leader
            assert not isinstance(answer.data, tuple)
            parts.append(answer.data)
            position += len(answer.data)
            if position >= answer.size or not len(answer.data):
                break
        snapshot = b"".join(parts)
        reader.load(read_checkpoint(snapshot), at.offset - 1, at.epoch)
        self._voters.load(snapshot)
        self.offset, self._last_epoch = at.offset, at.epoch

    def _ask(self, asked: FetchRequest | SnapshotRequest, wait_ms: int = 0) -> Any:
        """The leader's answer; None if the leader changed: then the quorum was described again."""
        client, quorum = self._connected.client, self.quorum
        at = quorum.controllers.get(quorum.leader)
        try:
            if at is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the quorum names no leader")
            request = request_to_wire(asked, "", quorum.leader)
            request.cluster_id = None  # type: ignore[attr-defined]
            message = self._connected.call(
                client.send(
                    at, request, timeout_ms=wait_ms + REQUEST_TIMEOUT_MS, purpose="metadata"
                )
            )
            answer: Any = response_from_wire(asked, message, quorum.epoch)
            if answer.error is not ErrorCode.NONE:
                raise KafkaError(answer.error, "")
        except (ChannelError, KafkaError) as error:
            self._searches += 1
            if isinstance(error, KafkaError) and error.code not in MOVED_ERRORS:
                raise
            if self._searches >= SEARCHES_MAX:
                raise _unreachable(quorum, at, error) from error
            self._connected.run_for(SEARCH_PAUSE_MS)
            self.quorum = self._find(self._connected)
            return None
        self._searches = 0
        return answer


def _unreachable(quorum: FoundQuorum, at: Endpoint | None, error: Exception) -> Failure:
    return Failure(
        f"controller {quorum.leader} at {at} does not answer ({error}): the metadata log is read"
        " from the controllers' listener, which must be reachable from here",
        UNREACHABLE,
    )


class Stretch:
    """A range of the log's bytes, to be read from `offset` to `end_offset`. `events_in` moves `offset` to the
    next offset to read and sets `epoch` to that of the last batch."""

    def __init__(self, records: Buffer, offset: int = 0, end_offset: int = 2**63 - 1) -> None:
        self.records = memoryview(records)
        self.offset = offset
        self.end_offset = end_offset
        self.epoch = 0


def events_in(reader: EventReader, stretch: Stretch, voters: VoterEvents) -> Iterator[ClusterEvent]:
    """The events of the range's complete batches. Raises CorruptBatchError, MalformedError."""
    for run in iter_runs(stretch.records):
        if run.end_offset > stretch.end_offset:
            return
        if run.end_offset <= stretch.offset:
            continue
        batch = stretch.records[run.position : run.position + run.size]
        at_ms = HEADER.unpack_from(batch, 0)[8]
        if run.is_control:
            for _, message in control_records(batch):
                if isinstance(message, LeaderChangeMessage):
                    yield _leader_change(run.base_offset, at_ms, run.epoch, message)
                for result in voters.read_record(message):
                    yield ClusterEvent(run.base_offset, at_ms, *result, "")
        else:
            yield from reader.feed(batch_values(batch), run.base_offset, at_ms)
        reader.image.moved_to(run.end_offset - 1, run.epoch, at_ms)
        stretch.offset, stretch.epoch = run.end_offset, run.epoch


def _leader_change(
    offset: int, at_ms: int, epoch: int, message: LeaderChangeMessage
) -> ClusterEvent:
    votes = ", ".join(str(voter.voter_id) for voter in message.granting_voters)
    reason = message.quorum_recovery or (f"votes of {votes}" if votes else "")
    change = f"leads the quorum in epoch {epoch}"
    return ClusterEvent(offset, at_ms, "quorum", str(message.leader_id), change, reason)
