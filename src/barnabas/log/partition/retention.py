"""Which old segments go: by time, by size, and because the log begins behind them.

Source: ``UnifiedLog.deleteOldSegments`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_names import SNAPSHOT, file_name
from barnabas.log.segments.segment import has_timestamp, mark_deleted
from barnabas.log.state.producer_state import snapshot_offsets

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog
    from barnabas.log.segments.segment import Segment


def delete_old_segments(log: PartitionLog, wall_ms: int, bound: int) -> list[Segment]:
    """See :meth:`PartitionLog.delete_old_segments`; nothing at or above offset `bound` goes."""
    gone = _count_expired(log, wall_ms, bound)
    if gone == 0:
        return []
    if gone == len(log.segments):
        log.roll()
    old, log.segments = log.segments[:gone], log.segments[gone:]
    log.index_segments()
    log.advance_log_start(log.segments[0].base_offset)
    for segment in old:
        log.deleted_paths.extend(mark_deleted(log.disk, segment))
    for offset in snapshot_offsets(log.disk, log.directory):
        if offset < log.segments[0].base_offset:
            log.disk.remove(f"{log.directory}/{file_name(offset, SNAPSHOT)}")
    return old


def take_deleted_paths(log: PartitionLog) -> list[str]:
    """Files that are named ``.deleted``; the caller removes them."""
    paths = log.deleted_paths.copy()
    log.deleted_paths.clear()
    return paths


def _count_expired(log: PartitionLog, wall_ms: int, bound: int) -> int:
    """How many of the first segments. One of which compaction left nothing goes with what is behind it, for
    it has no time of its own."""
    config, count = log.config, 0
    excess = log.size - config.retention_bytes if config.retention_bytes >= 0 else 0
    for at, segment in enumerate(log.segments):
        end = log.end_of_segment(at)
        if end > bound or (segment.size == 0 and segment is log.active):
            break
        stamp = _timestamp(segment, config, wall_ms)
        by_start = end <= log.log_start_offset
        by_time = config.delete and stamp >= 0 and 0 <= config.retention_ms < wall_ms - stamp
        by_size = config.delete and config.retention_bytes >= 0 and excess >= segment.size
        if by_start or by_time or by_size:
            excess -= segment.size
            count = at + 1
        elif segment.size:
            break
    return count


def _timestamp(segment: Segment, config: LogConfig, wall_ms: int) -> int:
    """The largest one of a segment. An index that rotted may say anything: what makes the segment go, or stay
    for longer than it should, is held to the batch that has it."""
    stamp, retention = segment.max_timestamp, config.retention_ms
    if config.delete and segment.size and not (retention < 0 or 0 <= wall_ms - stamp <= retention):
        with suppress(CorruptLogError):  # a batch rotted as well: the index may be right
            if not has_timestamp(segment, stamp):
                segment.rebuild_indexes()
        stamp = segment.max_timestamp
    return stamp
