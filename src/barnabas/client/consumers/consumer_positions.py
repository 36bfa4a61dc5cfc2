"""A consumer's position in a partition, and whether the log still holds what it has read. Sans-IO.

A position remembers the leader epoch of the record before it. After a leader change `check_positions` asks
where that epoch ends (KIP-320). If it ends before the position, the log was truncated (by an unclean
election, say), and the position goes back to that end: the consumer has never read the records now after
it, which offsets alone would not show.

Source: ``SubscriptionState`` and ``OffsetsForLeaderEpochUtils`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from barnabas.client.client import Client
from barnabas.client.consumers.fetch_requests import FetchedRun
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.cluster_metadata import ClusterMetadata
from barnabas.record.decode import Record
from barnabas.types import ZERO_UUID, TopicPartition, Uuid, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
)

CONSUMER = -1
"""Who asks; others may know of what is not committed."""


class ConsumerPosition:
    """One assigned partition."""

    __slots__ = (
        "busy", "checked_in", "epoch", "fetch_from", "left", "paused", "position", "preferred",
        "preferred_until_ms", "retry_at_ms", "runs", "start", "topic_id",
    )  # fmt: skip

    def __init__(self) -> None:
        self.position: int | None = None  # next offset to hand out; None until it is known
        self.epoch = -1
        """Leader epoch of the record before `position`; -1 where that is not known."""
        self.checked_in = -1
        """The leader epoch in which `position` was found in the log of `topic_id`."""
        self.topic_id: Uuid = ZERO_UUID
        self.start: int | None = None
        """Until `position` is known: the end of the log to begin at, where that is decided."""
        self.fetch_from = -1
        self.runs: deque[FetchedRun] = deque()
        self.left: tuple[tuple[Record, ...], Iterator[Record]] | None = None
        """The rest of the first of `runs`, where a part was handed out: what is decoded, what follows."""
        self.busy = False  # asked for, or its position is being looked up
        self.paused = False
        self.retry_at_ms = 0.0
        self.preferred = -1  # a follower to read from, nearer than the leader (KIP-392)
        self.preferred_until_ms = 0.0

    def seek(self, offset: int, epoch: int = -1) -> None:
        self.position = self.fetch_from = offset
        self.epoch, self.checked_in = epoch, -1
        self.start = self.left = None
        self.runs.clear()

    def seek_end(self, start: int) -> None:
        """To `EARLIEST` or `LATEST`, wherever that turns out to be."""
        self.position, self.start, self.fetch_from = None, start, -1
        self.left = None
        self.runs.clear()

    def prefer(self, replica: int, until_ms: float) -> None:
        """Read from `replica` until `until_ms`; then the leader is asked again."""
        self.preferred, self.preferred_until_ms = replica, until_ms

    def replica(self, cluster: ClusterMetadata, tp: TopicPartition, now_ms: float) -> int | None:
        """The broker to read from: the follower that the leader named, while that holds; else the leader,
        where it is known."""
        if self.preferred >= 0:
            is_known = self.preferred in cluster.brokers and not self.has_doubts(cluster, tp)
            if is_known and now_ms < self.preferred_until_ms:
                return self.preferred
            self.maybe_leave_preferred()
        return cluster.leader(tp)

    def maybe_leave_preferred(self) -> bool:
        """Read from the leader again. Returns whether a follower was read from."""
        was_preferred = self.preferred >= 0
        self.preferred = -1
        return was_preferred

    def keep(self, run: FetchedRun) -> bool:
        """Keep a run to hand it out. False where there is nothing in it, or `seek` was quicker."""
        if run.offset != self.fetch_from or not len(run.data):
            return False
        self.fetch_from = run.next_offset
        self.runs.append(run)
        return True

    def has_doubts(self, cluster: ClusterMetadata, tp: TopicPartition) -> bool:
        """Whether the leader changed since `position` was found in the log; else it counts as found."""
        topic = cluster.topics.get(tp.topic)
        view = None if topic is None else topic.partitions.get(tp.partition)
        if topic is None or view is None:
            return False
        same = self.topic_id in (ZERO_UUID, topic.topic_id)
        if same and self.epoch >= 0 and view.leader_epoch > self.checked_in:
            return True
        self.topic_id, self.checked_in = topic.topic_id, view.leader_epoch
        return False


def epoch_before(reading: ConsumerPosition | None, offset: int) -> int:
    """The leader epoch of the record before `offset`, where that is the position; else -1."""
    return reading.epoch if reading is not None and reading.position == offset else -1


async def check_positions(
    client: Client, leader: int, readings: Mapping[TopicPartition, ConsumerPosition], *, moves: bool
) -> tuple[list[TopicPartition], dict[TopicPartition, KafkaError]]:
    """Take positions that the log of `leader` does not have any more back to where it was cut. Answers those
    of which that is not known (all, unless it `moves` any), and those for which it refused to say. Raises
    `ChannelError`, and `KafkaError` where it is not known."""
    asked = {tp: (reading.position, reading.epoch) for tp, reading in readings.items()}
    view_of = client.cluster.partition
    epochs = {tp: -1 if (view := view_of(tp)) is None else view.leader_epoch for tp in asked}
    try:
        ends = await _ask(client, leader, asked, epochs)
    except ChannelError as error:
        if error.kind != "unsupported":
            raise
        ends = {}
        for tp, reading in readings.items():  # the brokers do not support the lookup
            reading.checked_in = epochs[tp]
    gone: list[TopicPartition] = []
    refused: dict[TopicPartition, KafkaError] = {}
    for tp, end in ends.items():
        reading = readings[tp]
        position = reading.position
        if end.error_code:
            text = f"epochs of {tp} at broker {leader}"
            refused[tp] = KafkaError(code_of(end.error_code), text)
            if end.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
                client.cluster.doubt_epoch(tp)
        elif position is None or (position, reading.epoch) != asked[tp]:
            continue  # the application called `seek` meanwhile
        elif end.end_offset < 0 or end.leader_epoch < 0:
            gone.append(tp)
        elif end.end_offset >= position:
            reading.checked_in = epochs[tp]
        else:
            client.ports.log(
                "warning", "consumer.log_was_cut", partition=str(tp), read_to=position,
                resumes_at=end.end_offset,
            )  # fmt: skip
            if moves:
                reading.seek(end.end_offset, end.leader_epoch)
                reading.checked_in = epochs[tp]
            else:
                gone.append(tp)
    return gone, refused


def passes(error: KafkaError) -> bool:
    """Whether to ask again. A fault within a broker says nothing of what is asked."""
    return error.retriable or error.code == ErrorCode.UNKNOWN_SERVER_ERROR


async def _ask(
    client: Client,
    leader: int,
    asked: Mapping[TopicPartition, tuple[int | None, int]],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, EpochEndOffset]:
    topics = by_topic(
        (
            tp.topic,
            OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=epochs[tp], leader_epoch=epoch
            ),
        )
        for tp, (_, epoch) in asked.items()
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=p) for name, p in topics.items()],
    )
    response: OffsetForLeaderEpochResponse = await client.ask_node(
        leader, request, purpose="offsets"
    )
    left_out = EpochEndOffset(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    found = dict.fromkeys(asked, left_out)
    for topic in response.topics:
        for end in topic.partitions:
            tp = TopicPartition(topic.topic, end.partition)
            if tp in asked:
                found[tp] = end
    return found
