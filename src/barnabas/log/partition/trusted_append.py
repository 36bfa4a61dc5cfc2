"""The short way into a log for a batch that this process made or checked a moment ago.

One proposal of the quorum is one small batch, a thousand times a second and more: its CRC need not be
computed again, and most of the time neither a segment nor an epoch begins with it. Whatever is not so
takes the way of :meth:`PartitionLog.append_as_follower`, which this must equal otherwise.
"""

from __future__ import annotations

from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments.segment import Segment
from barnabas.record.batch import HEADER_SIZE, LENGTH_PREFIX, MAGIC, BatchHeader, read_header


def append_trusted(log: PartitionLog, batch: bytes) -> bool:
    """Append `batch` where it is one whole batch without a producer that follows the end, in the last
    epoch and segment; else do nothing. Whether it did. Raises ``OSError``."""
    size = len(batch)
    if size < HEADER_SIZE or log.log_start_offset == log.log_end_offset:
        return False
    header, segment = read_header(batch), log.segments[-1]
    count = header.last_offset_delta + 1
    if (
        header.length + LENGTH_PREFIX != size
        or header.magic != MAGIC
        or header.base_offset != log.log_end_offset
        or header.leader_epoch != log.epochs.latest
        or header.producer_id >= 0
        or count < 1
        or _may_be_full(log, segment, header, size)
    ):
        return False
    segment.append((batch,), size, header)
    log.log_end_offset = log.producers.end_offset = header.base_offset + count
    log.durability.on_appended(count)
    return True


def _may_be_full(log: PartitionLog, segment: Segment, header: BatchHeader, size: int) -> bool:
    """Whether the batch could need a new segment; the long way knows."""
    first, config = segment.first_timestamp, log.config
    return (
        first is None
        or segment.size + size > config.segment_bytes
        or segment.index.size() >= config.segment_index_bytes
        or segment.time_index.size() >= config.segment_index_bytes
        or segment.would_overflow(header.base_offset + header.last_offset_delta)
        or header.max_timestamp - first > log.roll_ms - config.segment_jitter_ms
    )
