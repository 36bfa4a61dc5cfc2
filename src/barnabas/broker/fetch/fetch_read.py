"""The answer to a fetch for one partition, and what its session remembers of it.

Reads never block: bytes that are not in memory are noted as cold. A job reads them once, and
another read pass follows. A request with another leader epoch, or an offset outside the log, gets a
`KafkaError`.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from barnabas.broker.partitions.partition import Partition
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.replication.sessions import FetchSession, SessionPartition
from barnabas.types import Buffer
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

READ_COMMITTED = 1
FOLLOWERS_SERVE_SINCE = 11
"""Consumers of this version may read from followers (KIP-392)."""
NO_DIVERGENCE = EpochEndOffset()
NO_LEADER = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()
_LENGTH = Struct(">qi")

Watched = SessionPartition[Partition]
Session = FetchSession[Partition]


class PendingRead(NamedTuple):
    """A read of bytes that are not in memory."""

    watched: Watched
    size: int
    up_to: int | None


class ReadPass:
    """The conditions and the findings of one read pass over a session's partitions."""

    __slots__ = (
        "answers",
        "block",
        "cold",
        "committed",
        "is_full",
        "size",
        "throttled",
        "urgent",
        "whole",
    )

    def __init__(self, committed: bool, whole: bool, block: bool) -> None:
        self.committed = committed
        """Read only records of transactions that have ended."""
        self.whole = whole
        """Answer for each partition, even if there is nothing new."""
        self.block = block
        """Wait for bytes that are not in memory."""
        self.answers: list[tuple[Watched, PartitionData]] = []
        self.size = 0
        self.urgent = False
        """The answer must not wait: it has an error or a divergence, or there is more than fits
        into it."""
        self.is_full = False
        """The response has no room for a batch of some partition."""
        self.cold: list[PendingRead] = []
        self.throttled = 0
        """The part of `size` that counts for the leader's throttle."""


def partition_answer(
    look: ReadPass,
    watched: Watched,
    partition: Partition,
    log: PartitionLog,
    left: int,
    first: bool,
) -> PartitionData | None:
    """The answer for one partition with at most `left` bytes (`first`: at least one batch); None if
    the peer knows everything in it. Raises KafkaError."""
    up_to = None
    session = watched.session
    if not session.sees_all:
        up_to = log.last_stable_offset if look.committed else log.high_watermark
    diverging = NO_DIVERGENCE
    records: Buffer = b""
    parts = None
    if watched.last_fetched_epoch >= 0:
        parts = partition.diverging_epoch(watched.last_fetched_epoch, watched.fetch_offset)
    if parts is not None:
        diverging = EpochEndOffset(epoch=parts[0], end_offset=parts[1])
    else:
        records = _read(look, watched, partition, log, left, first, up_to)
    high_watermark, log_start = log.high_watermark, log.log_start_offset
    if (
        not records
        and parts is None
        and not look.whole
        and high_watermark == watched.sent_high_watermark
        and log_start == watched.sent_log_start
    ):
        return None
    aborted = None
    if up_to is not None and look.committed:
        aborted = _aborted(partition, log, watched.fetch_offset, up_to, records) if records else []
    return PartitionData(
        partition_index=watched.key[1],
        high_watermark=high_watermark,
        last_stable_offset=high_watermark if session.is_follower else log.last_stable_offset,
        log_start_offset=log_start,
        diverging_epoch=diverging,
        current_leader=NO_LEADER,
        snapshot_id=NO_SNAPSHOT,
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=records,
    )


def _read(
    look: ReadPass,
    watched: Watched,
    partition: Partition,
    log: PartitionLog,
    left: int,
    first: bool,
    up_to: int | None,
) -> Buffer:
    offset, end = watched.fetch_offset, log.log_end_offset if up_to is None else up_to
    if offset >= end or not (first or (left > 0 and watched.max_bytes > 0)):
        if not log.log_start_offset <= offset <= log.log_end_offset:
            partition.check_offset(offset)  # raises OFFSET_OUT_OF_RANGE
        return b""
    size = max(min(watched.max_bytes, left), 0)
    found = partition.read(offset, size, up_to, at_least_one=first, block=look.block)
    if found is None:
        look.cold.append(PendingRead(watched, size, up_to))
        return b""
    # A reader cannot use a part of a batch: leave the room to other partitions.
    return found.records if first or _has_whole_batch(found.records) else b""


def _has_whole_batch(records: Buffer) -> bool:
    return len(records) >= _LENGTH.size and 12 + _LENGTH.unpack_from(records)[1] <= len(records)


def _aborted(
    partition: Partition, log: PartitionLog, start: int, end: int, records: Buffer
) -> list[AbortedTransaction]:
    """The aborted transactions in the range that was read; `records` come from one segment."""
    if len(records) >= _LENGTH.size:
        segment = log.segment_index(_LENGTH.unpack_from(records)[0])
        end = min(end, log.end_of_segment(segment))
    return [
        AbortedTransaction(producer_id=producer, first_offset=first)
        for producer, first in partition.aborted_transactions(start, end)
    ]


def error_answer(watched: Watched, error: KafkaError) -> PartitionData:
    return PartitionData(
        partition_index=watched.key[1],
        error_code=error.code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        diverging_epoch=NO_DIVERGENCE,
        current_leader=NO_LEADER,
        snapshot_id=NO_SNAPSHOT,
        aborted_transactions=None,
        records=b"",
    )


def redirect_answer(watched: Watched, log: PartitionLog, replica: int) -> PartitionData:
    """The answer that sends a consumer to `replica`, which is nearer to it (KIP-392)."""
    return PartitionData(
        partition_index=watched.key[1],
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=NO_DIVERGENCE,
        current_leader=NO_LEADER,
        snapshot_id=NO_SNAPSHOT,
        aborted_transactions=None,
        preferred_read_replica=replica,
        records=b"",
    )


def response_of(session: Session, answers: list[tuple[Watched, PartitionData]]) -> FetchResponse:
    """The response that carries `answers`, by topic."""
    topics: dict[object, FetchableTopicResponse] = {}
    for watched, data in answers:
        key = watched.key[0]
        topic = topics.get(key)
        if topic is None:
            partitions: list[PartitionData] = []
            topics[key] = topic = (
                FetchableTopicResponse(topic_id=key, partitions=partitions)
                if session.uses_ids
                else FetchableTopicResponse(topic=watched.topic, partitions=partitions)
            )
        topic.partitions.append(data)  # type: ignore[attr-defined]
    return FetchResponse(session_id=session.id, responses=list(topics.values()))


def remember(session: Session, watched: Watched, data: PartitionData) -> None:
    """Note what the peer knows with this answer, and whether there is more to send. A peer that has
    to truncate takes nothing else from the answer: the watermarks are sent again, or a follower
    that had nothing to truncate would never get them."""
    if (
        data.error_code
        or data.diverging_epoch is not NO_DIVERGENCE
        or data.preferred_read_replica >= 0
    ):
        watched.sent_high_watermark = watched.sent_log_start = -1
        session.later(watched)
        return
    watched.sent_high_watermark = data.high_watermark
    watched.sent_log_start = data.log_start_offset
    if data.records:
        session.later(watched)
    elif not has_more(session, watched) and not _has_moved(watched, data):
        session.dirty.pop(watched, None)
    # Else the answer had no room for it: it keeps its place before the others.


def _has_moved(watched: Watched, data: PartitionData) -> bool:
    """Whether the watermarks moved after `data` was made in an earlier turn of the loop."""
    partition = watched.partition
    if partition is None or partition.log is None:
        return True
    log = partition.log
    return (
        log.high_watermark != data.high_watermark or log.log_start_offset != data.log_start_offset
    )


def has_more(session: Session, watched: Watched) -> bool:
    """Whether there is something to read at the peer's position."""
    partition = watched.partition
    if partition is None or partition.log is None:
        return True
    log = partition.log
    return watched.fetch_offset < (log.log_end_offset if session.sees_all else log.high_watermark)
