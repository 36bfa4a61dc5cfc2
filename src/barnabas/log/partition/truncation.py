"""Truncates a log.

Afterwards the log continues in a new segment: truncated bytes may reappear after a power loss, but never
between or after newer ones (see :mod:`barnabas.log.partition.partition_log`). The deletion of whole segments
is durable before anything else is written.

Source: Kafka's ``UnifiedLog.truncateTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.partition.producer_state_recovery import rebuild_producers, remove_snapshots
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import remove
from barnabas.record.batch import HEADER_SIZE, read_header

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """See :meth:`PartitionLog.truncate_to`."""
    if offset >= log.log_end_offset:
        # An earlier leadership without records left an epoch at the log's end. The current leader does not
        # know that epoch, and would ask for the same truncation again.
        log.epochs.truncate_from_end(offset)
        log.epochs.write()
        return False
    if offset <= log.log_start_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    segment = log.segments[log.segment_index(offset)]
    committed = log.high_watermark if log.high_watermark > log.log_start_offset else -1
    end, position = segment.end_before(offset, committed)
    if end <= log.log_start_offset:
        truncate_fully_and_start_at(log, log.log_start_offset)
        return True
    # One offset below the end, so that the truncated file is synced and recovered. Without a truncated file
    # the end itself is right: the segment before may end earlier, by compaction.
    _before_cut(log, end if end == segment.base_offset else end - 1)
    before = len(log.segments)
    while log.segments and log.segments[-1].base_offset >= end:
        remove(log.disk, log.segments.pop())
    if len(log.segments) < before:
        log.disk.sync_dir(log.directory)
    log.index_segments()
    if log.segments:
        active = log.active
        if active is segment and position < active.size:
            active.cut(position, end)
        active.finish()
        transaction_index.truncate_aborted(log.files, active, end)
    log.log_end_offset = end
    log.epochs.truncate_from_end(end)
    log.epochs.write()
    log.move_high_watermark(log.high_watermark)
    remove_snapshots(log, end + 1)
    if log.producers.knows_of(end):
        rebuild_producers(log)
    log.producers.end_offset = end
    log.add_segment(end)
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: int) -> None:
    """See :meth:`PartitionLog.truncate_fully_and_start_at`."""
    _before_cut(log, min(offset, log.log_start_offset))
    remove_snapshots(log, 0)
    while log.segments:
        remove(log.disk, log.segments.pop())
    log.disk.sync_dir(log.directory)
    log.epochs.clear()
    log.epochs.write()
    start_empty(log, offset)


def start_empty(log: PartitionLog, offset: int) -> None:
    """Start the log with one empty segment at `offset`."""
    log.index_segments()
    log.producers.clear(offset)
    log.log_start_offset = log.log_end_offset = offset
    log.durability.on_begun(offset)
    log.move_high_watermark(offset)
    log.add_segment(offset)


def begin_inside(log: PartitionLog, records: memoryview) -> None:
    """Move an empty log's start back to the base offset of the first batch, if that begins before it. A
    leader's log start offset may be inside a batch, and it sends whole batches; its answer also has its log
    start offset, which readers see. Source: Kafka's ``UnexpectedAppendOffsetException``."""
    if len(records) < HEADER_SIZE:
        return
    header = read_header(records, 0)
    if header.base_offset < log.log_end_offset < header.next_offset:
        truncate_fully_and_start_at(log, header.base_offset)


def _before_cut(log: PartitionLog, offset: int) -> None:
    log.generations.on_truncated(offset)
    log.durability.on_truncated(offset)
