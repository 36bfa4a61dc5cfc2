"""Cutting a log short.

After a cut the log continues in a new file: bytes that were cut may come back after a power loss, but
never between or behind newer ones (see :mod:`barnabas.log.partition.partition_log`). Whole segments that go
are gone on the device before anything else is written.

Source: Kafka's ``UnifiedLog.truncateTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.config import FOREVER_MS
from barnabas.log.partition.producer_state_recovery import rebuild_producers, remove_snapshots
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import remove
from barnabas.record.batch import HEADER_SIZE, read_header

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """See :meth:`PartitionLog.truncate_to`."""
    if offset >= log.log_end_offset:
        # A former leadership that wrote nothing left an epoch at the very end; the leader that sent us
        # here does not know it, and would send us here again.
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
    # One below the end: the file that was cut has to be synced and looked at, whatever follows it. Where none
    # was, the one before may end earlier, by compaction.
    _lower_recovery_point(log, end if end == segment.base_offset else end - 1)
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
    _lower_recovery_point(log, min(offset, log.log_start_offset))
    remove_snapshots(log, 0)
    while log.segments:
        remove(log.disk, log.segments.pop())
    log.disk.sync_dir(log.directory)
    log.epochs.clear()
    log.epochs.write()
    start_empty(log, offset)


def start_empty(log: PartitionLog, offset: int) -> None:
    """Begin with one empty segment at `offset`."""
    log.index_segments()
    log.producers.clear(offset)
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset
    log.move_high_watermark(offset)
    log.add_segment(offset)


def begin_inside(log: PartitionLog, records: memoryview) -> None:
    """An empty log that begins inside the batch which comes first (a leader's log start need not be a
    batch's end, and it sends whole batches) begins where the batch does; readers learn the leader's log start
    with the same answer. Source: Kafka's ``UnexpectedAppendOffsetException``."""
    if len(records) < HEADER_SIZE:
        return
    header = read_header(records, 0)
    if header.base_offset < log.log_end_offset < header.next_offset:
        truncate_fully_and_start_at(log, header.base_offset)


def forget_cuts(log: PartitionLog) -> None:
    """The log was compacted as a whole: earlier truncations do not matter to the next compaction."""
    log.lowest_cut = FOREVER_MS


def _lower_recovery_point(log: PartitionLog, offset: int) -> None:
    log.truncation_count += 1
    log.lowest_cut = min(log.lowest_cut, offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.compactable_to = min(log.compactable_to, offset)
    if offset < log.checkpointed_recovery_point:
        log.checkpointed_recovery_point = offset
        if log.on_recovery_point_lowered is not None:
            log.on_recovery_point_lowered()
