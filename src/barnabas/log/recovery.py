"""Opens a partition's log: trusts what the recovery point vouches for, and reads the rest.

After a clean shutdown nothing is scanned but the tail behind the last index entry. After a crash the
segments from the recovery point on are read whole: the first batch that is cut off or whose CRC does
not match ends the log, later segments are dropped, indexes, epochs and producers are made anew. Nothing
below the recovery point is touched.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.log import transactions
from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.files import CLEANED, DELETED, LOG, SWAP, OpenFiles, offset_of
from barnabas.log.partition_log import PartitionLog
from barnabas.log.segment import Segment
from barnabas.ports import Disk
from barnabas.record.batch import HEADER_SIZE
from barnabas.types import TopicPartition, Uuid


class Opened(NamedTuple):
    """An open log and what opening it did."""

    log: PartitionLog
    cut_bytes: int
    """Dropped at the end because they were no whole batch."""
    fault: str
    """Why, in one sentence; empty where nothing was dropped."""


def open_log(
    disk: Disk,
    files: OpenFiles,
    directory: str,
    partition: TopicPartition,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    topic_id: Uuid | None = None,
) -> Opened:
    """Open or create the log in `directory`. Blocks on the disk. Raises ``OSError``."""
    fresh = not disk.exists(directory)
    disk.make_dirs(directory)
    log = PartitionLog(disk, files, directory, partition, config, topic_id)
    names = [] if fresh else _clear_leftovers(disk, directory)
    for name in names:
        base = offset_of(name)
        if base is not None and name.endswith(LOG):
            path = f"{directory}/{name}"
            log.segments.append(
                Segment(files, directory, base, disk.size(path), config.index_interval_bytes)
            )
    log.index_segments()
    epochs_usable = log.epochs.load() if not fresh else True
    if not log.segments:
        log.truncate_fully_and_start_at(log_start_offset)
        return Opened(log, 0, "")
    log.new_files = False
    cut, fault = 0, ""
    if not clean:
        cut, fault = _recover(log, recovery_point)
    _find_end(log, log_start_offset)
    log.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
    if not epochs_usable or not clean:
        _rebuild_epochs(log, 0 if not epochs_usable else recovery_point)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    log.high_watermark = log.log_start_offset
    log.rebuild_producers()
    return Opened(log, cut, fault)


def _clear_leftovers(disk: Disk, directory: str) -> list[str]:
    """Finish or undo what a crash interrupted; the names that are left, sorted."""
    names = disk.list_dir(directory)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith((DELETED, CLEANED)):
            disk.remove(path)
        elif name.endswith(SWAP) and not cleaned:
            # The new segment was whole before its files were renamed to .swap: finish the swap.
            disk.rename(path, path.removesuffix(SWAP))
        elif name.endswith(SWAP):
            disk.remove(path)
    return disk.list_dir(directory)


def _recover(log: PartitionLog, recovery_point: int) -> tuple[int, str]:
    """Read what the recovery point does not vouch for; (bytes dropped, why)."""
    at = max(
        (i for i, segment in enumerate(log.segments) if segment.base_offset <= recovery_point),
        default=0,
    )
    while at < len(log.segments):
        segment = log.segments[at]
        cut, fault = _recover_segment(log, segment, recovery_point)
        if fault:
            for later in log.segments[at + 1 :]:
                cut += later.size
                later.remove()
            del log.segments[at + 1 :]
            log.index_segments()
            return cut, fault
        at += 1
    return 0, ""


def _recover_segment(log: PartitionLog, segment: Segment, recovery_point: int) -> tuple[int, str]:
    end, next_offset, fault = 0, segment.base_offset, ""
    try:
        for batch in segment.headers(crc=True):
            if batch.header.base_offset < next_offset:
                raise CorruptLogError(segment.path, batch.position, "the offsets do not ascend")
            end = batch.position + batch.header.size
            next_offset = batch.header.next_offset
    except CorruptLogError as error:
        fault = str(error)
    cut = segment.size - end
    if cut and not fault:
        fault = f"{segment.path}: {cut} bytes at the end are no whole batch"
    if cut:
        segment.file().truncate(end)
        segment.size = end
    segment.rebuild_indexes()
    transactions.truncate_aborted(log.files, segment.transaction_index_path, next_offset)
    return cut, fault


def _find_end(log: PartitionLog, log_start_offset: int) -> None:
    active = log.active
    try:
        if not active.index.load() or not active.time_index.load():
            active.rebuild_indexes()
        end = active.last_offset_scan()
    except CorruptLogError:
        # The index points into nothing, or the tail is torn though the shutdown was clean.
        _recover_segment(log, active, 0)
        end = active.last_offset_scan()
    first = log.segments[0].base_offset
    log.log_start_offset = min(max(log_start_offset, first), max(end, first))
    log.log_end_offset = max(end, log.log_start_offset)
    if active.size >= HEADER_SIZE and active.first_timestamp is None:
        active.first_timestamp = next(active.headers()).header.max_timestamp


def _rebuild_epochs(log: PartitionLog, from_offset: int) -> None:
    """The leader epochs as the batches say them."""
    changed = False
    for segment in log.segments:
        if segment is not log.active and segment.base_offset < from_offset:
            continue
        for batch in segment.headers():
            header = batch.header
            if header.leader_epoch > log.epochs.latest:
                changed |= log.epochs.assign(header.leader_epoch, header.base_offset, write=False)
    if changed:
        log.epochs.write()
