"""Opens a partition's log: trusts what the recovery point vouches for, and reads the rest.

After a clean shutdown nothing is scanned but the tail behind the last index entry. After a crash the
batches from the recovery point on are read and checked (:mod:`barnabas.log.partition.crash_recovery`), and
indexes, leader epochs, producers and aborted transactions from there on are rebuilt. Nothing below the
recovery point is touched.

Source: Kafka's ``LogLoader``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import (
    CLEANED,
    DELETED,
    INDEX,
    LEADER_EPOCH,
    LOG,
    REPAIRED,
    SNAPSHOT,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    is_file_of_log,
    offset_of,
)
from barnabas.log.partition import segment_swap, truncation
from barnabas.log.partition.crash_recovery import BeforeCut, Cut, LogScan, recover, recover_segment
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.partition.producer_state_recovery import rebuild_producers
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import Segment
from barnabas.log.state.epoch_runs import EpochRuns
from barnabas.log.state.producer_state import CompletedTransaction, snapshot_offsets
from barnabas.ports import Disk
from barnabas.types import TopicPartition, Uuid

INTERRUPTED = (SWAP, DELETED, CLEANED, REPAIRED, TEMPORARY)
"""How names end that a crash may have left behind."""
STAND_IN = b"?"
"""In the place of a segment's batches that are gone: no batch."""


class LoadedLog(NamedTuple):
    """An open log and what opening it did."""

    log: PartitionLog
    cut_bytes: int
    """Dropped at the end because they were no whole batch."""
    fault: str
    """Why, in one sentence; empty where nothing was dropped."""


class LogCheckpoints(NamedTuple):
    """The facts that a former process left of a log: how it ended, and how far it had come."""

    clean: bool
    """Whether it closed the log."""
    recovery_point: int = 0
    """Everything below is durable; of a log that was closed, its end (0: unknown)."""
    log_start_offset: int = 0
    compacted_to: int = 0
    """Up to there compaction may have left gaps between segments."""
    has_gaps: bool = True
    """Whether offsets may be missing between batches. A log without gaps ends before the first one."""
    known_bases: Sequence[int] = ()
    """The segments of a log that was closed; none: unknown."""

    def scan(self) -> LogScan | None:
        """The scan of the batches that are to be read and checked; None after a clean end."""
        if self.clean:
            return None
        return LogScan(self.recovery_point, self.compacted_to, self.has_gaps)

    @property
    def closed_at(self) -> int:
        """The end of the log when it was closed; 0 if unknown."""
        return self.recovery_point if self.clean else 0

    def durable_to(self, end: int) -> int:
        """How far a log that ends at `end` is on the device."""
        return end if self.clean else min(self.recovery_point, end)

    def unknown_from(self, end: int) -> int:
        """From there on the files beside the batches of a log that ends at `end` vouch for nothing."""
        return end if self.clean else self.recovery_point


def open_log(
    files: FileCache,
    directory: str,
    partition: TopicPartition,
    config: LogConfig,
    checkpoints: LogCheckpoints,
    *,
    topic_id: Uuid | None = None,
    before_cut: BeforeCut | None = None,
) -> LoadedLog:
    """Open or create the log in `directory`. Blocks on the disk. Raises ``OSError``, and what `before_cut`
    raises."""
    disk, clean, log_start_offset = files.disk, checkpoints.clean, checkpoints.log_start_offset
    log = PartitionLog(disk, files, directory, partition, config, topic_id)
    durability = log.durability
    durability.on_only_checkpoint(checkpoints.recovery_point)
    if not disk.exists(directory):
        disk.make_dirs(directory)
        truncation.start_empty(log, log_start_offset)
        return LoadedLog(log, 0, "")
    found = disk.list_dir(directory)
    names = clear_leftovers(disk, directory, found)
    known = checkpoints.known_bases
    gone = _stand_in_for_lost(disk, directory, names, found, known) if clean else []
    names = _drop_orphans(disk, directory, sorted([*names, *gone]))
    for name in names:
        base = offset_of(name) if name.endswith(LOG) else None
        if base is not None and name == file_name(base, LOG):
            size = disk.size(f"{directory}/{name}")
            log.segments.append(Segment(files, directory, base, size, config.index_interval_bytes))
    log.index_segments()
    if not log.segments:
        truncation.truncate_fully_and_start_at(log, log_start_offset)
        return LoadedLog(log, 0, "")
    _make_missing_indexes(log, set(names))
    is_sound = log.epochs.load()
    epochs_usable = is_sound and LEADER_EPOCH in names
    if not is_sound:
        files.on_rebuilt(f"{directory}/{LEADER_EPOCH}", "it is no list of leader epochs")
    # After a crash only what lies below the recovery point is known to be durable, and a clean end
    # leaves an empty log as it is (`flush_jobs.is_dirty`).
    is_empty = log.active.base_offset == 0 and not log.active.size
    for changes in (durability.dirty_names, durability.dirty_dir_name, log.epochs.dirty_changes):
        changes.reset(pending=not clean or is_empty)
    seen = checkpoints.scan()
    cut = Cut() if seen is None else recover(log, seen, before_cut)
    later_cut = _find_end(log, log_start_offset, checkpoints.closed_at)
    if later_cut is not None:
        cut, seen = later_cut, None
    _fit_durability(log, checkpoints)
    unknown_from = checkpoints.unknown_from(log.log_end_offset)
    _fit_epochs(log, unknown_from if epochs_usable else 0, seen)
    log.move_high_watermark(log.log_start_offset)
    _fit_producers(log, checkpoints, seen)
    _drop_stray_snapshots(log, names)
    log.note_first_timestamp()
    lost = f"{directory}/{gone[0]} is gone" if gone else ""
    return LoadedLog(log, cut.size, cut.fault or lost)


def clear_leftovers(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Finish or undo what a crash interrupted (see :mod:`barnabas.log.partition.segment_swap`) of what is
    found there; the names that are left, sorted. Files with other names than a broker gives are left."""
    left = [name for name in names if name.endswith(INTERRUPTED) and is_file_of_log(name)]
    swapped = {offset_of(name) for name in left if name.endswith(LOG + SWAP)}
    changed = False
    for name in left:
        if not name.endswith(SWAP) or offset_of(name) not in swapped:
            with suppress(PermissionError, IsADirectoryError):  # it takes up room, and is ignored
                disk.remove(f"{directory}/{name}")
            changed = True
    for base in sorted(base for base in swapped if base is not None):
        segment_swap.finish(disk, directory, base)
        changed = True
    return disk.list_dir(directory) if changed else names


def _stand_in_for_lost(
    disk: Disk, directory: str, names: list[str], found: list[str], known: Sequence[int]
) -> list[str]:
    """Replace segments that were lost after a clean end. No file is missing then, except those that a process
    was renaming when it was killed before it had written anything. A segment is lost if a `known` one is
    missing (they are known before any rename; the segments that compaction had replaced by it may still be
    there, as deleted), or if indexes behind another segment lack their batches. Readers would silently skip
    it. So a file of rot takes its place, which is reported and mended like any; the names of such files."""
    logs = {name[:20] for name in names if name.endswith(LOG)}
    deleted = {name[:20] for name in found if name.endswith(LOG + DELETED)}
    alone = {name[:20] for name in names if name.endswith((INDEX, TIME_INDEX))} - logs - deleted
    whole = {file_name(base, LOG)[:20] for base in known} - logs
    alone = {base for base in alone if logs and base > min(logs)} | (whole if logs else set())
    lost = [f"{base}{LOG}" for base in sorted(alone)]
    for name in lost:
        disk.write_atomic(f"{directory}/{name}", STAND_IN)
    return lost


def _make_missing_indexes(log: PartitionLog, names: set[str]) -> None:
    """Retention and searches by timestamp trust the indexes: a missing one is rebuilt."""
    for segment in log.segments:
        base = segment.base_offset
        wanted = {file_name(base, INDEX), file_name(base, TIME_INDEX)}
        if segment.size and not wanted <= names:
            log.files.on_rebuilt(segment.index.path, "an index of the segment is missing")
            with suppress(CorruptLogError):  # a batch rotted: reported when it is read
                segment.rebuild_indexes()


def _drop_orphans(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Indexes whose batches are gone go as well."""
    logs = {name[:20] for name in names if name.endswith(LOG)}
    left = []
    for name in names:
        if name.endswith((INDEX, TIME_INDEX, TXN_INDEX)) and name[:20] not in logs:
            disk.remove(f"{directory}/{name}")
        else:
            left.append(name)
    return left


def _follows_on(log: PartitionLog, base: int) -> bool:
    """Whether the segment before the one at `base` ends there, and not earlier, by compaction. Not where it
    is damaged: the next recovery would read it, and cut the log there."""
    try:
        return log.segments[log.bases.index(base) - 1].find_end() == base
    except CorruptLogError:
        return False


# -- what follows from the batches -------------------------------------------------------------------


def _find_end(log: PartitionLog, log_start_offset: int, closed_at: int) -> Cut | None:
    """`closed_at`: where the log ended when it was closed; 0 if unknown."""
    active, cut = log.active, None
    try:
        end = active.find_end()
    except CorruptLogError as error:
        # The index points into nothing, or the tail is torn though the shutdown was clean.
        log.files.on_rebuilt(active.index.path, str(error))
        cut = recover_segment(active, 0, None)
        cut = Cut(cut.size, cut.fault or str(error))
        end = active.find_end()
    if cut is None and end != closed_at > active.base_offset:
        cut = recover_segment(active, 0, _bound_of(active, closed_at))
        cut, end = (cut if cut.fault else None), active.find_end()
    first = log.segments[0].base_offset
    log.log_end_offset = max(end, first)
    log.log_start_offset = min(max(log_start_offset, first), log.log_end_offset)
    return cut


def _bound_of(segment: Segment, closed_at: int) -> int | None:
    """The offset before which all batches of a segment end, in a log that ended at `closed_at` and seems to
    end elsewhere: no CRC covers offsets, so the last batch's offset may have rotted. None if the batches do
    not contradict the end that was found (the checkpoint may have rotted instead)."""
    try:
        end, position = segment.end_before(closed_at)
        following = next(segment.headers(position), None)
    except CorruptLogError:
        return None
    leaps = following is not None and end < closed_at and following.header.base_offset > end
    return closed_at if leaps else None


def _fit_durability(log: PartitionLog, checkpoints: LogCheckpoints) -> None:
    """Everything is on the device after a clean end, else what is below the recovery point."""
    durability, end = log.durability, log.log_end_offset
    durability.on_opened(checkpoints.durable_to(end), end)
    if (
        not checkpoints.clean
        and log.recovery_point in log.bases[1:]
        and _follows_on(log, log.recovery_point)
    ):
        # The indexes of the segment before were completed, now or by a roll, and have to be synced.
        durability.require_sync_from(log.recovery_point - 1)
    if log.recovery_point < log.active.base_offset:
        # As after a roll, full segments become durable soon: compaction waits for that.
        durability.sync_again_later()


def _fit_epochs(log: PartitionLog, from_offset: int, seen: LogScan | None) -> None:
    """Take leader epochs from `from_offset` on from the batches. Keep also the newest epoch of the file if it
    begins at the log's end: its leader wrote no record, but may have committed the records before."""
    epochs = log.epochs
    begun, start_of_begun = epochs.latest, epochs.starts[-1] if epochs.starts else -1
    epochs.truncate_from_end(min(from_offset, log.log_end_offset))
    if from_offset < log.log_end_offset:
        known = seen is not None and from_offset >= seen.from_offset
        runs = seen.epochs if seen and known else _epochs_from(log, from_offset)
        for epoch, start in runs.runs():
            if epoch > epochs.latest:
                epochs.assign(epoch, start)
    if start_of_begun == log.log_end_offset and begun > epochs.latest:
        epochs.assign(begun, start_of_begun)
    known_from = epochs.starts[0] if epochs.starts else min(from_offset, log.log_end_offset)
    if known_from > log.log_start_offset:
        # The log's start was further when they were written, and no checkpoint of it was.
        epochs.add_before(_epochs_from(log, log.log_start_offset, known_from).runs())
    epochs.truncate_from_start(log.log_start_offset)


def _epochs_from(log: PartitionLog, offset: int, up_to: int | None = None) -> EpochRuns:
    """The epochs of the batches from the one that holds `offset` on, before `up_to`; nothing where they
    are of a format that has no epochs."""
    found = EpochRuns()
    for segment in log.segments[log.segment_index(offset) :]:
        with suppress(CorruptLogError):  # a batch rotted: reported when it is read
            start = segment.position_of_batch_with(max(offset, segment.base_offset)) or 0
            for header, _ in segment.headers(start):
                if up_to is not None and (header.base_offset >= up_to or header.leader_epoch < 0):
                    return found
                found.assign(header.leader_epoch, header.base_offset)
    return found


def _fit_producers(log: PartitionLog, checkpoints: LogCheckpoints, seen: LogScan | None) -> None:
    """Producer state at the log's end; the entries of aborted transactions that a crash took."""
    if checkpoints.clean:
        rebuild_producers(log)
        return
    recovery_point = checkpoints.recovery_point
    for offset in snapshot_offsets(log.disk, log.directory):
        if offset > recovery_point:
            # It may be of batches that were cut, or not be whole.
            log.disk.remove(f"{log.directory}/{file_name(offset, SNAPSHOT)}")
    for segment in log.segments[log.segment_index(recovery_point) :]:
        transaction_index.truncate_aborted(log.files, segment, recovery_point)

    def on_aborted(segment: Segment, done: CompletedTransaction) -> None:
        if done.last_offset >= recovery_point:
            stable = log.producers.stable_behind(done)
            transaction_index.append_aborted(log.files, segment, done, stable)

    none_from = None if seen is None or seen.has_producers else seen.from_offset
    rebuild_producers(log, on_aborted, none_from)


def _drop_stray_snapshots(log: PartitionLog, names: list[str]) -> None:
    """Those of producers at offsets where no segment begins any more, by compaction, or where the log once
    ended. One is needed for each segment, and the one that was read just now."""
    needed = {*log.bases, log.snapshots.newest}
    for name in names:
        offset = offset_of(name) if name.endswith(SNAPSHOT) else None
        if offset is not None and offset < log.bases[-1] and offset not in needed:
            if log.disk.exists(f"{log.directory}/{name}"):
                log.disk.remove(f"{log.directory}/{name}")
