"""All log directories of a broker (``log.dirs``, JBOD): opening, creating, deleting, checkpoints, upkeep.

Runs its periodic work (checkpoints, retention, delayed deletion, expiry of producers, flushing) from one
wake-up; blocking parts go through ``ports.background``, one queue per directory. A directory that
fails goes offline: its logs are taken out and `on_offline` is called; the other directories stay in use.

Source: ``LogManager`` of Apache Kafka 4.3 for behaviour; KIP-112, KIP-858 (JBOD).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from barnabas.config.meta_properties import MetaProperties
from barnabas.config.settings import LogManagerSettings
from barnabas.limits import SLICE_MS
from barnabas.log import checkpoints
from barnabas.log.config import LogConfig
from barnabas.log.directories.delayed_delete import DelayedDelete
from barnabas.log.directories.entry_names import LOCK_FILE
from barnabas.log.directories.flush_scheduler import FlushScheduler
from barnabas.log.directories.future_logs import FutureLogs
from barnabas.log.directories.log_cleaner import LogCleaner
from barnabas.log.directories.log_directory import LogDirectory, never_had_topic_id
from barnabas.log.directories.log_listener import LogEvents
from barnabas.log.directories.log_shutdown import LogShutdown
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import (
    PartitionLog,
)
from barnabas.log.partition.retention import take_deleted_paths
from barnabas.ports import Ports, Wakeup, call_all, no_work
from barnabas.types import (
    DIRECTORY_LOST,
    DIRECTORY_UNASSIGNED,
    TopicPartition,
    Uuid,
    uuid_text,
)
from barnabas.wire.errors import ErrorCode, KafkaError

ConfigOf = Callable[[str], LogConfig]
TICK_MS = 1000.0
FOREIGN_TOLD_MAX = 10
"""Names of foreign entries in one line of the log."""
UNREADABLE = "its meta.properties could not be read at the start"


class DirectoryInUse(OSError):
    """Another process has the directory."""


class LogDirectories:
    """The logs of one broker, by partition. `logs` shows only those of online directories."""

    def __init__(
        self,
        ports: Ports,
        settings: LogManagerSettings,
        identities: Mapping[str, MetaProperties | None],
        config_of: ConfigOf,
        on_offline: Callable[[LogDirectory, list[TopicPartition]], None],
        on_copy_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`identities` maps each path of ``log.dirs`` to its ``meta.properties``; to None if it could not
        be read: that directory is offline from the start, and its contents are unknown. `on_copy_gone` is
        called when a copy of a log was dropped, or its directory failed."""
        self.ports = ports
        self.settings = settings
        self.config_of = config_of
        self.on_offline = on_offline
        self.events = LogEvents()
        self.files = FileCache(
            ports.disk,
            ports.bounds.logs.open_files_max,
            loaded_tables_max=ports.bounds.logs.loaded_tables_max,
            on_rebuilt=partial(_say_rebuilt, ports),
        )
        self.directories = [
            LogDirectory(ports.disk, path, DIRECTORY_LOST if meta is None else meta.directory_id)
            for path, meta in identities.items()
        ]
        for directory in self.directories:
            if directory.directory_id == DIRECTORY_LOST:
                directory.offline_reason = UNREADABLE
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._directory_by_log: dict[TopicPartition, LogDirectory] = {}
        self.duplicates: dict[TopicPartition, tuple[LogDirectory, PartitionLog]] = {}
        """Second logs under one name, of another topic: `resolve_duplicate` will tell whose it is."""
        self._writing = False
        self.delayed_delete = DelayedDelete(ports, self.fail)
        self.futures = FutureLogs(self, on_copy_gone)
        self._due: dict[str, float] = {}
        self._wakeup: Wakeup | None = None
        self.flushes = FlushScheduler(ports, self, self.events.flushed)
        self.cleaner = LogCleaner(ports, settings, self)
        self.log_shutdown: LogShutdown | None = None
        """The end, once it has begun."""
        self._ends = False
        """No sync begins by itself any more."""

    # -- opening ---------------------------------------------------------------------------------

    def lock(self) -> None:
        """Raises :class:`DirectoryInUse` where another process has one of the directories."""
        for directory in self.directories:
            if directory.is_online and not self.ports.disk.try_lock(
                f"{directory.path}/{LOCK_FILE}"
            ):
                raise DirectoryInUse(
                    f"{directory.path} is in use by another process; a node needs its own directory"
                )

    def open(self, between: Callable[[], None] = no_work) -> None:
        """Open every log of every directory. Blocks. A directory that cannot be read goes offline;
        where none is left, ``OSError``. `between` is called between two logs."""
        for directory in self.directories:
            if not directory.is_online:
                path, reason = directory.path, directory.offline_reason
                self.ports.log("error", "log.directory_offline", path=path, reason=reason)
                continue
            try:
                self._open_directory(directory, between)
            except OSError as error:
                self.fail(directory, f"opening it failed: {error}")
            except Exception as error:  # noqa: BLE001 - a fault of this program: told, and the others live
                self.fail(directory, f"opening it failed: {_text_of(error)}")
                self.ports.wakeups.call_soon(partial(_raise, error))
        self.futures.clean_up_at_start()
        if not any(directory.is_online for directory in self.directories):
            raise OSError(self.directories[0].offline_reason)
        self._arm()
        self.cleaner.start()

    def _open_directory(self, directory: LogDirectory, between: Callable[[], None]) -> None:
        directory.load(partial(_say_rebuilt, self.ports))
        found_here = set[TopicPartition]()
        for found in directory.partitions():
            try:
                log = self._open_log(directory, found.partition, found.topic_id)
            except Exception as error:
                error.add_note(f"in {directory.path}/{found.partition}")
                raise
            other = self.logs.get(found.partition)
            if other is None:
                self.add_log(directory, log)
            else:
                _keep_one(self, directory, log, other)
                if not directory.is_online:
                    return
            found_here.add(found.partition)
            between()
        directory.segments_at_close = {}
        self.futures.open(directory)
        if not directory.was_clean:
            _vouch_for_old_logs(directory)
        _check_all_are_there(self, directory, found_here)
        if directory.foreign:
            _tell_foreign(self, directory)
        self.cleaner.load(directory)
        directory.forget_old_checkpoints()
        self.ports.log(
            "info",
            "log.directory_open",
            path=directory.path,
            logs=len(found_here),
            clean=directory.was_clean,
        )

    def _open_log(
        self, directory: LogDirectory, partition: TopicPartition, topic_id: Uuid | None
    ) -> PartitionLog:
        config = self.config_of(partition.topic)
        path, left = f"{directory.path}/{partition}", directory.checkpoints_of(partition, config)
        opened = open_log(self.files, path, partition, config, left, topic_id=topic_id)
        log, start = opened.log, directory.log_starts.get(partition, 0)
        beginning = ""
        if start > log.log_end_offset:
            # All its records were deleted, and consumers are at its start offset: the log continues there.
            beginning = f"it ends at {log.log_end_offset} and began at {start}"
            log.truncate_fully_and_start_at(start)
        log.move_high_watermark(directory.high_watermarks.get(partition, 0))
        if topic_id is None and log.log_end_offset > 0:
            if never_had_topic_id(directory, partition):
                log.set_never_had_topic_id()
            directory.on_lost_topic_id(str(partition))
        fault = opened.fault or beginning
        if directory.was_clean:
            closed_at = directory.recovery_points.get(partition, 0)
            if log.log_end_offset < closed_at:
                fault = fault or f"it ends at {log.log_end_offset} and was closed at {closed_at}"
        if fault:
            # Shorter than when it was closed cleanly: the broker must not claim a clean shutdown for it.
            directory.distrust()
            self.ports.log(
                "warning",
                "log.cut",
                partition=str(partition),
                bytes=opened.cut_bytes,
                reason=fault,
            )
        return log

    def add_log(self, directory: LogDirectory, log: PartitionLog) -> None:
        """`log`, which is open and in `directory`, is its partition's log from now on."""
        log.durability.watch_recovery_point(directory.lower_recovery_points)
        directory.logs[log.partition] = log
        self.logs[log.partition] = log
        self._directory_by_log[log.partition] = directory

    @property
    def previous_broker_epoch(self) -> int:
        """The epoch for the registration at the controller: -1 unless every directory ended cleanly."""
        epochs = {d.previous_broker_epoch for d in self.directories if d.is_online}
        return epochs.pop() if len(epochs) == 1 else -1

    # -- logs ------------------------------------------------------------------------------------

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        return self._directory_by_log.get(partition)

    @property
    def any_offline(self) -> bool:
        """Whether there may be logs that cannot be read now."""
        return any(not directory.is_online for directory in self.directories)

    def by_id(self, directory_id: Uuid) -> LogDirectory | None:
        for directory in self.directories:
            if directory.directory_id == directory_id:
                return directory
        return None

    def create(
        self,
        partition: TopicPartition,
        topic_id: Uuid,
        directory_id: Uuid = DIRECTORY_UNASSIGNED,
    ) -> PartitionLog:
        """The log of `partition`, made where it is missing: in the directory asked for, or in the one
        with the fewest logs. Raises :class:`KafkaError` KAFKA_STORAGE_ERROR."""
        log = self.logs.get(partition)
        if log is not None:
            return log
        directory = self.by_id(directory_id)
        if directory is None:
            online = [d for d in self.directories if d.is_online]
            directory = min(online, key=lambda d: len(d.logs), default=None)
        if directory is None or not directory.is_online:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {partition} is offline"
            )
        try:
            if partition in directory.in_checkpoints:
                directory.write_all_checkpoints()  # of its predecessor by this name
            opened = open_log(
                self.files,
                f"{directory.path}/{partition}",
                partition,
                self.config_of(partition.topic),
                LogCheckpoints(clean=False),
                topic_id=topic_id,
            )
            directory.write_topic_id(str(partition), topic_id)
        except OSError as error:
            self.fail(directory, f"creating {partition} failed: {error}")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self.add_log(directory, opened.log)
        return opened.log

    def detach(self, partition: TopicPartition) -> tuple[LogDirectory, PartitionLog] | None:
        """The log is not the partition's any more; its files are the caller's."""
        log = self.logs.pop(partition, None)
        directory = self._directory_by_log.pop(partition, None)
        if log is None or directory is None:
            return None
        directory.logs.pop(partition, None)
        return directory, log

    def delete(self, partition: TopicPartition, *, is_stray: bool = False) -> None:
        """Take the log out at once, a future one too; the files go after ``file.delete.delay.ms``. Those
        of a stray log, which this broker found and which is no replica of it, stay under another name."""
        self.futures.drop(partition)
        found = self.detach(partition)
        if found is not None:
            self.cleaner.forget(partition)
            (self.delayed_delete.set_astray if is_stray else self.delayed_delete.delete)(*found)

    # -- failure ---------------------------------------------------------------------------------

    def fail(self, directory: LogDirectory, reason: str) -> None:
        """Take `directory` offline: nothing of it is read or written any more."""
        if not directory.is_online:
            return
        directory.offline_reason = reason
        self.ports.log("error", "log.directory_offline", path=directory.path, reason=reason)
        gone = sorted(directory.logs)
        for partition in gone:
            log = self.logs.pop(partition)
            del self._directory_by_log[partition]
            self.cleaner.forget(partition)
            for segment in log.segments:
                segment.close()
        directory.logs.clear()
        for partition, (where, log) in list(self.duplicates.items()):
            if where is directory:
                del self.duplicates[partition]
                log.close(clean=False)
        self.futures.on_offline(directory)
        self.delayed_delete.forget(directory)
        self.files.close_below(directory.path)  # a log that was being opened, or went, has some
        _end_waiting(self, directory)  # its disk may hang
        self.on_offline(directory, gone)

    def fail_log(self, partition: TopicPartition, error: BaseException) -> None:
        """A log's disk call failed: its directory goes offline."""
        directory = self._directory_by_log.get(partition)
        if directory is not None:
            self.fail(directory, f"{partition}: {error}")

    # -- durability ------------------------------------------------------------------------------

    def sync(self, log: PartitionLog) -> None:
        """Make `log` durable in the background. One at a time: on a slow disk those of a log that rolls with
        every append would be hundreds, each with all files again, and the end of the node behind them."""
        directory = self._directory_by_log.get(log.partition)
        if directory is None or self.logs[log.partition] is not log:
            return
        if log.durability.is_syncing:
            log.durability.sync_again_later()
            return
        try:
            job, on_synced = log.sync_job()
            log.durability.begin_sync(self.ports.clock.now_ms())
        except OSError as error:
            self.fail(directory, f"{log.partition}: {error}")
            return

        def finish(result: object) -> None:
            log.durability.end_sync()
            if isinstance(result, BaseException):
                if self.logs.get(log.partition) is log:  # not deleted or moved meanwhile
                    self.fail(directory, f"syncing {log.partition} failed: {result}")
                return
            on_synced()
            if log.durability.rolled_since_sync and not self._ends:
                self.sync(log)

        directory.watchdog.run(self.ports.background, f"sync {directory.path}", job, finish)

    def after_append(self, log: PartitionLog, before: int) -> None:
        """``flush.messages``, and segments that were rolled: sync where that is due. The append began at
        offset `before`."""
        if log.flush_is_due:
            self.flushes.demand(log, before)
        elif log.durability.rolled_since_sync:
            self.sync(log)

    def checkpoint(
        self, name: str, only: LogDirectory | None = None, done: Callable[[], None] | None = None
    ) -> None:
        """Write one kind of checkpoint of every directory, or of one, in the background. `done` once no such
        one of that directory is being written, whatever became of it; for the recovery points."""
        if only is not None and done is not None:
            only.when_checkpointed.append(done)
        for directory in self.directories if only is None else [only]:
            if directory.is_online:
                _checkpoint(self, directory, name)

    # -- upkeep ----------------------------------------------------------------------------------

    def _arm(self) -> None:
        now = self.ports.clock.now_ms()
        if not self._due:
            settings = self.settings
            self._due = {
                "retention": now + settings.initial_task_delay_ms,
                "flush": now + settings.initial_task_delay_ms,
                "recovery": now + settings.recovery_point_checkpoint_interval_ms,
                "start": now + settings.start_offset_checkpoint_interval_ms,
                "producers": now + settings.producer_id_check_interval_ms,
            }
        self._wakeup = self.ports.wakeups.call_at(now + TICK_MS, self._tick)

    def _tick(self) -> None:
        now = self.ports.clock.now_ms()
        settings = self.settings
        work: Sequence[tuple[str, float, Callable[[], None]]] = (
            ("retention", settings.retention_check_interval_ms, self.apply_retention),
            ("flush", settings.flush_check_interval_ms, self._flush_due),
            (
                "recovery",
                settings.recovery_point_checkpoint_interval_ms,
                lambda: self.checkpoint(checkpoints.RECOVERY_POINT),
            ),
            (
                "start",
                settings.start_offset_checkpoint_interval_ms,
                lambda: self.checkpoint(checkpoints.LOG_START),
            ),
            ("producers", settings.producer_id_check_interval_ms, self._expire_producers),
        )
        try:
            for name, interval, action in work:
                if now >= self._due[name]:
                    self._due[name] = now + max(interval, TICK_MS)
                    action()
            _sync_full_segments(self, now + SLICE_MS)
            for directory in self.directories:
                if directory.is_online and directory.watchdog.tick(TICK_MS):
                    self.fail(directory, "its disk has not answered for a minute")
            self.delayed_delete.remove_due(now)
        finally:  # a fault of one log must not be the end of all upkeep
            self._arm()

    def apply_retention(self) -> None:
        """Take out what ``retention.*`` does not keep, in every log."""
        wall = self.ports.clock.wall_ms()
        call_all(partial(_retain, self, log, wall) for _, log in sorted(self.logs.items()))

    def remove_later(self, log: PartitionLog) -> None:
        """Its files that are named ``.deleted`` go after ``file.delete.delay.ms``."""
        directory, paths = self._directory_by_log.get(log.partition), take_deleted_paths(log)
        if directory is not None:
            self.delayed_delete.add(directory, paths, log.config.file_delete_delay_ms)

    def _flush_due(self) -> None:
        """``flush.ms``."""
        now = self.ports.clock.now_ms()
        due = [
            log
            for log in self.logs.values()
            if now - log.durability.last_sync_ms >= log.config.flush_ms
        ]
        call_all(partial(self.sync, log) for log in due if log.durability.unsynced_messages)

    def _expire_producers(self) -> None:
        wall = self.ports.clock.wall_ms()
        for log in self.logs.values():
            if log.producers.entries or log.producers.verifications:
                log.producers.expire(wall, self.settings.producer_id_expiration_ms)

    # -- the end ---------------------------------------------------------------------------------

    def begin_writing(self) -> None:
        """From now on logs change, and the end of this process is a crash unless `shutdown` comes. Until
        then the proof of the last clean shutdown holds: a node that was started and killed before it was
        in the cluster again has lost nothing (seed 39). Blocks."""
        self._writing = True
        for directory in self.directories:
            if directory.is_online:
                try:
                    directory.mark_open()
                except OSError as error:
                    self.fail(directory, f"removing its clean-shutdown file failed: {error}")

    def when_synced(self, done: Callable[[], None]) -> None:
        """`done` once the syncs under way are over: what they write must not come after what `shutdown`
        writes. Those of a directory that is offline are not waited for: its disk may hang. The periodic
        work ends here."""
        self._ends = True
        if self._wakeup is not None:
            self._wakeup.cancel()
        kinds = ("sync", "flush", "checkpoint")
        online = [directory for directory in self.directories if directory.is_online]
        waiting = {f"{kind} {directory.path}" for directory in online for kind in kinds}

        def over(queue: str) -> None:
            waiting.discard(queue)
            if not waiting:
                done()

        if not waiting:
            done()
        for queue in sorted(waiting):
            self.ports.background.run(queue, _nothing, lambda _, q=queue: over(q))  # type: ignore[misc]

    def shutdown(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Flush and close everything, write the checkpoints and the proof of a clean shutdown (for
        `broker_epoch`; the last one's stays where nothing was written since), then call `done`. No caller
        may append any more."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        self.cleaner.stop()

        def proof(directory: LogDirectory) -> int | None:
            return broker_epoch if self._writing or not directory.was_clean else None

        def closed() -> None:
            self.files.close_all()
            done()

        self.log_shutdown = LogShutdown(self.ports, self.directories, proof, closed)
        self.log_shutdown.start()

    def describe(self) -> dict[str, object]:
        return {
            "logs": len(self.logs),
            "open_files": len(self.files),
            "directories": {
                directory.path: directory.offline_reason or "online"
                for directory in self.directories
            },
        }


def _retain(logs: LogDirectories, log: PartitionLog, wall_ms: int) -> None:
    directory = logs.directory_of(log.partition)
    if directory is None:
        return
    try:
        old = log.delete_old_segments(wall_ms)
    except OSError as error:
        logs.fail(directory, f"deleting old segments of {log.partition} failed: {error}")
        return
    if old:
        logs.ports.log("info", "log.retention", partition=str(log.partition), segments=len(old))
        logs.remove_later(log)
        logs.events.start_moved(log.partition)


def _keep_one(
    logs: LogDirectories, directory: LogDirectory, log: PartitionLog, other: PartitionLog
) -> None:
    """Two directories hold a log of one partition: the replica was recreated in one while the other was
    offline. The log that is further in leader epochs and offsets is the one that the broker last vouched
    for; the other is set aside. If the logs are of two topics with one name, the metadata decide later
    which topic the replica belongs to. Raises ``OSError`` where there are three."""
    partition, current = log.partition, logs.directory_of(log.partition)
    assert current is not None
    if log.topic_id != other.topic_id:
        if partition in logs.duplicates:
            log.close(clean=False)
            raise OSError(f"{partition} is in {directory.path} and in {current.path} at once")
        logs.duplicates[partition] = (directory, log)
    elif (log.last_epoch, log.log_end_offset) > (other.last_epoch, other.log_end_offset):
        logs.detach(partition)
        logs.cleaner.forget(partition)
        logs.delayed_delete.set_astray(current, other)
        logs.add_log(directory, log)
    else:
        logs.delayed_delete.set_astray(directory, log)


def adopt_log(logs: LogDirectories, log: PartitionLog, topic_id: Uuid) -> None:
    """`log`, which never had a topic id, is `topic_id`'s from now on. Raises :class:`KafkaError`
    KAFKA_STORAGE_ERROR."""
    directory = logs.directory_of(log.partition)
    assert directory is not None
    try:
        directory.write_topic_id(str(log.partition), topic_id)
    except OSError as error:
        logs.fail(directory, f"giving {log.partition} its topic id failed: {error}")
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    log.give_topic_id(topic_id)
    logs.ports.log(
        "info", "log.topic_id_given", partition=str(log.partition), topic_id=uuid_text(topic_id)
    )


def resolve_duplicate(
    logs: LogDirectories, partition: TopicPartition, topic_id: Uuid | None
) -> None:
    """The metadata know `partition` as one of `topic_id` (None: as none of this broker). Where two logs were
    found under its name, the one of another topic is set aside."""
    directory, log = logs.duplicates.pop(partition, (None, None))
    if directory is None or log is None:
        return
    if log.topic_id != topic_id:
        logs.delayed_delete.set_astray(directory, log)
        return
    found = logs.detach(partition)
    if found is not None:
        logs.cleaner.forget(partition)
        logs.delayed_delete.set_astray(*found)
    logs.add_log(directory, log)


def _vouch_for_old_logs(directory: LogDirectory) -> None:
    """Make the logs of before topic ids durable, and their recovery points: once the first of them has an id,
    a second crash leaves only the recovery points to tell that the others never had one. Blocks."""
    old = [log for log in directory.logs.values() if log.never_had_topic_id]
    for log in old:
        log.flush()
    if old:
        directory.lower_recovery_points()


def _check_all_are_there(
    logs: LogDirectories, directory: LogDirectory, found: set[TopicPartition]
) -> None:
    """Check that every log that a clean shutdown closed here is found; otherwise the broker would recreate
    a lost log, empty. Blocks."""
    if not directory.was_clean:
        return
    for partition, closed_at in sorted(directory.recovery_points.items()):
        if closed_at and partition not in found and partition not in logs.futures.logs:
            directory.distrust()
            reason = f"it was closed at {closed_at} and is gone"
            logs.ports.log("warning", "log.missing", partition=str(partition), reason=reason)


def _say_rebuilt(ports: Ports, path: str, reason: str) -> None:
    ports.log("warning", "log.rebuilt", path=path, reason=reason)


def _tell_foreign(logs: LogDirectories, directory: LogDirectory) -> None:
    names = directory.foreign[:FOREIGN_TOLD_MAX]
    logs.ports.log(
        "warning",
        "log.foreign_entries",
        path=directory.path,
        count=len(directory.foreign),
        names=",".join(map(repr, names)),
        reason="a broker did not make them, so they are left as they are",
    )


def _sync_full_segments(logs: LogDirectories, until_ms: float) -> None:
    """They become durable soon, so that recovery stays short. What this turn has no time for (many logs
    were recovered, or rolled at once) comes with the next tick."""
    for log in list(logs.logs.values()):
        if log.durability.rolled_since_sync:
            logs.sync(log)
            if logs.ports.clock.now_ms() >= until_ms:
                break


def _checkpoint(logs: LogDirectories, directory: LogDirectory, name: str) -> None:
    """One of a name at a time: the next job may be over before what this one wrote is put in its place, and
    both write to the same file beside it."""
    if name in directory.under_way:
        directory.under_way[name] = True
        return
    directory.under_way[name] = False
    write = directory.checkpoint_job(name)

    def finish(result: object) -> None:
        is_old = directory.under_way.pop(name)
        try:
            if isinstance(result, BaseException):
                raise OSError(str(result))
            write.finish()
        except OSError as error:
            logs.fail(directory, f"writing {name} failed: {error}")
        if is_old and directory.is_online:
            _checkpoint(logs, directory, name)
        elif name == checkpoints.RECOVERY_POINT:
            _end_waiting(logs, directory)

    queue = f"checkpoint {directory.path}"
    directory.watchdog.run(logs.ports.background, queue, write.job, finish)


def _end_waiting(logs: LogDirectories, directory: LogDirectory) -> None:
    waiting, directory.when_checkpointed = directory.when_checkpointed, []
    for done in waiting:
        logs.ports.wakeups.call_soon(done)


def _text_of(error: Exception) -> str:
    """A fault of the program in one line, with what it was about."""
    return " ".join([repr(error), *getattr(error, "__notes__", ())])


def _raise(error: Exception) -> None:
    raise error


def _nothing() -> None:
    """A job that is over when those before it are."""
