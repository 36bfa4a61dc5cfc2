"""Makes a log durable: syncs batches, indexes, leader epochs and file names, then moves the recovery point.

A job runs on another thread while the owner continues, so it gets paths and bytes, never the log. A file that
is missing when the job runs was deleted or truncated away meanwhile and needs no sync.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.log.file_names import PARTITION_METADATA, SNAPSHOT, file_name
from barnabas.ports import Disk

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog
    from barnabas.log.segments.segment import Segment

Job = Callable[[], None]


def is_dirty(log: PartitionLog) -> bool:
    """Whether something that matters may not be on the device. An empty log does not: it is created again."""
    if log.log_end_offset == 0:
        return False
    durability = log.durability
    names = durability.dirty_names.are_pending or durability.dirty_dir_name.are_pending
    return (
        names
        or log.epochs.dirty_changes.are_pending
        or durability.recovery_point < log.log_end_offset
    )


def sync_job(log: PartitionLog) -> tuple[Job, Job]:
    """See :meth:`PartitionLog.sync_job`."""
    disk, directory, end = log.disk, log.directory, log.log_end_offset
    durability, generations = log.durability, log.generations
    paths: list[str] = []
    for segment in _unsynced(log):
        if segment.write_indexes():
            durability.dirty_names.happened()
        paths += (segment.path, segment.index.path, segment.time_index.path)
        paths.append(segment.transaction_index_path)
    snapshots = set(log.snapshots.unsynced)
    paths += [f"{directory}/{file_name(offset, SNAPSHOT)}" for offset in sorted(snapshots)]
    has_new_epochs = log.epochs.write()
    if has_new_epochs:
        paths.append(log.epochs.path)
    names, dir_name = durability.dirty_names, durability.dirty_dir_name
    sync_names, sync_log_dir = names.are_pending, dir_name.are_pending
    covered = [(c, c.count) for c in (names, dir_name, log.epochs.dirty_changes)]
    durability.on_collected(whole=True)
    cuts, rolls = generations.truncation_count, generations.roll_count

    def job() -> None:
        for path in paths:
            _sync_file(disk, path)
        if sync_names or has_new_epochs:
            disk.sync_dir(directory)
        if sync_log_dir:
            _sync_file(disk, f"{directory}/{PARTITION_METADATA}")
            disk.sync_dir(directory.rsplit("/", 1)[0])

    def on_synced() -> None:
        for changes, count in covered:
            changes.made_durable(count)
        if generations.truncation_count == cuts:
            log.snapshots.on_synced(snapshots)
            # A roll since then completed indexes that this job did not sync. Stay one offset below the end of
            # that segment, so that the next sync includes it.
            durability.on_synced(end - 1 if generations.roll_count != rolls else end)

    return job, on_synced


def sync_log_job(log: PartitionLog) -> tuple[Job, Job]:
    """See :meth:`PartitionLog.sync_log_job`."""
    if log.durability.dirty_names.are_pending:
        return sync_job(log)
    disk, active = log.disk, log.segments[-1].path
    file = log.files.get(active)
    log.durability.on_collected(whole=False)
    paths: list[str] = []
    if len(log.segments) > 1:
        paths = [segment.path for segment in _unsynced(log)[:-1]]

    def job() -> None:
        for path in paths:
            _sync_file(disk, path)
        try:
            file.sync()  # already open: a commit of the quorum needs no system call to open it
        except ValueError:  # the file cache has closed it since
            _sync_file(disk, active)

    return job, _nothing


def close_job(log: PartitionLog) -> tuple[Job, Job]:
    """Close `log` durably: (blocking job, function to call when it is done). Indexes and the producer
    snapshot are written now; nothing may be appended afterwards."""
    if log.log_end_offset > log.log_start_offset:
        log.write_producer_snapshot(log.log_end_offset)
    if log.active.finish():
        log.durability.dirty_names.happened()
    job, on_synced = sync_job(log) if is_dirty(log) else (_nothing, _nothing)

    def finish() -> None:
        on_synced()
        close_files(log)

    return job, finish


def close_files(log: PartitionLog) -> None:
    for segment in log.segments:
        segment.close()


def _unsynced(log: PartitionLog) -> list[Segment]:
    return log.segments[log.segment_index(log.recovery_point) :]


def _nothing() -> None:
    """Do nothing. After :func:`sync_log_job` the recovery point must stay: below it recovery trusts indexes
    and leader epochs, too, which that job did not sync."""


def _sync_file(disk: Disk, path: str) -> None:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()
