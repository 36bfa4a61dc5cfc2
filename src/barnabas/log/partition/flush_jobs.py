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
    changes = log.epochs.changes.are_pending or log.names.are_pending or log.dir_name.are_pending
    return changes or log.recovery_point < log.log_end_offset


def sync_job(log: PartitionLog) -> tuple[Job, Job]:
    """See :meth:`PartitionLog.sync_job`."""
    disk, directory, end = log.disk, log.directory, log.log_end_offset
    paths: list[str] = []
    for segment in _unsynced(log):
        if segment.write_indexes():
            log.names.happened()
        paths += (segment.path, segment.index.path, segment.time_index.path)
        paths.append(segment.transaction_index_path)
    snapshots = set(log.new_snapshots)
    paths += [f"{directory}/{file_name(offset, SNAPSHOT)}" for offset in sorted(snapshots)]
    has_new_epochs = log.epochs.write()
    if has_new_epochs:
        paths.append(log.epochs.path)
    sync_names, sync_log_dir = log.names.are_pending, log.dir_name.are_pending
    covered = [(c, c.count) for c in (log.names, log.dir_name, log.epochs.changes)]
    log.unsynced_messages = 0
    log.rolled_since_sync = False
    cuts, rolls = log.truncation_count, log.rolls

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
        if log.truncation_count == cuts:
            log.new_snapshots = [at for at in log.new_snapshots if at not in snapshots]
            # A roll since then completed indexes that this job did not sync. Stay one offset below the end of
            # that segment, so that the next sync includes it.
            synced_to = end - 1 if log.rolls != rolls else end
            log.recovery_point = max(log.recovery_point, synced_to)

    return job, on_synced


def sync_log_job(log: PartitionLog) -> tuple[Job, Job]:
    """See :meth:`PartitionLog.sync_log_job`."""
    if log.names.are_pending:
        return sync_job(log)
    disk, active = log.disk, log.segments[-1].path
    file = log.files.get(active)
    log.unsynced_messages = 0
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


def begin_sync(log: PartitionLog, now_ms: float) -> tuple[Job, Job]:
    """Begin a `sync_job`. The caller calls :func:`end_sync` when it ended, also if it failed."""
    log.last_sync_ms = now_ms
    job, on_synced = log.sync_job()
    log.is_syncing = True
    return job, on_synced


def end_sync(log: PartitionLog) -> None:
    log.is_syncing = False


def sync_again_later(log: PartitionLog) -> None:
    """Have another sync follow the one that is running."""
    log.rolled_since_sync = True


def require_flush(log: PartitionLog, before: int) -> None:
    """Count records from offset `before` on as written only when they are synced (``flush.messages``)."""
    log.flush_limit = min(log.flush_limit, before)


def on_flushed(log: PartitionLog, end: int) -> None:
    """Records below offset `end` are synced; ``FOREVER_MS`` (larger than any offset) means the whole log."""
    log.flush_limit = max(log.flush_limit, end)


def watch_recovery_point(log: PartitionLog, on_lowered: Callable[[], None]) -> None:
    """Call `on_lowered` before bytes below the checkpointed recovery point are rewritten."""
    log.on_recovery_point_lowered = on_lowered


def begin_checkpoint(log: PartitionLog, recovery_point: int) -> None:
    """A checkpoint with `recovery_point` is about to be written; a restart may find it from now on."""
    log.checkpointed_recovery_point = max(log.checkpointed_recovery_point, recovery_point)


def on_checkpointed(log: PartitionLog, recovery_point: int) -> None:
    """The checkpoint with `recovery_point` is in place."""
    log.compactable_to = recovery_point


def on_lower_checkpoint(log: PartitionLog) -> None:
    """The checkpoint has this log's current recovery point, and no other checkpoint is being written."""
    log.checkpointed_recovery_point = log.compactable_to = log.recovery_point


def close_job(log: PartitionLog) -> tuple[Job, Job]:
    """Close `log` durably: (blocking job, function to call when it is done). Indexes and the producer
    snapshot are written now; nothing may be appended afterwards."""
    if log.log_end_offset > log.log_start_offset:
        log.write_producer_snapshot(log.log_end_offset)
    if log.active.finish():
        log.names.happened()
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
