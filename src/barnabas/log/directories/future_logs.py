"""Copies of logs on their way to another log directory of the same broker (KIP-113).

A future log is in ``<topic>-<partition>.<uuid>-future`` beside the current logs of its directory and
shares that directory's checkpoints. The broker's mover fills it; this module creates it, drops it, and
puts it in the current log's place.

Invariants: a partition has at most one current log and at most one future one, in different
directories; whatever a crash interrupts, opening finds exactly one valid log. The swap first renames the
current directory to ``-delete``, durably, then the future one to the plain name: a partition without a
current log whose ``-delete`` directory is there was between the two, and its future log is whole, provided
that every directory was looked at.

Source: ``LogManager.replaceCurrentWithFutureLog`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.log.directories.entry_names import deleted_partition_of, name_of_future
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.log_moves import inherit, relocate
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.log.directories.log_directories import LogDirectories

NAME_BYTES_MAX = 255
"""The longest name of a file system, in bytes."""


class FutureLogs:
    """The future logs of one broker, by partition; `logs` shows only those of online directories."""

    def __init__(self, directories: LogDirectories, on_gone: Callable[[], None]) -> None:
        """`on_gone` is called when a copy was dropped, or its directory failed."""
        self._directories = directories
        self._on_gone = on_gone
        self._disk = directories.ports.disk
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._target_dirs: dict[TopicPartition, LogDirectory] = {}
        self._syncing: set[TopicPartition] = set()

    # -- opening ---------------------------------------------------------------------------------

    def open(self, directory: LogDirectory) -> None:
        """Open the future logs that `directory` holds. Blocks. Raises ``OSError``."""
        for found in directory.futures_on_disk():
            if found.partition in self.logs:
                # Two destinations of one log: either is a copy, so one is removed and the other continues.
                self._disk.remove_tree(f"{directory.path}/{found.name}")
                continue
            opened = open_log(
                self._directories.files,
                f"{directory.path}/{found.name}",
                found.partition,
                self._directories.config_of(found.partition.topic),
                LogCheckpoints(
                    clean=directory.was_clean,
                    recovery_point=directory.recovery_points.get(found.partition, 0),
                    log_start_offset=directory.log_starts.get(found.partition, 0),
                ),
                topic_id=found.topic_id,
            )
            self._adopt(directory, opened.log)

    def clean_up_at_start(self) -> None:
        """After every directory was opened: finish the swaps that a crash interrupted, then remove what
        deleted partitions and ended moves left behind. Blocks.

        While a directory is away the current log may be in it, and what was deleted another, older one: such
        a copy stays one. Where the controller had agreed to the move, `replace_missing` follows when the
        replica takes up its role; else a start with every directory decides."""
        owner = self._directories
        online = [directory for directory in owner.directories if directory.is_online]
        leftovers = {directory: directory.leftovers() for directory in online}
        deleted = {deleted_partition_of(name) for names in leftovers.values() for name in names}
        unclear = set[TopicPartition | None]()
        for partition, log in sorted(self.logs.items()):
            target_dir, current = self._target_dirs[partition], owner.directory_of(partition)
            try:
                if current is None and not owner.any_offline and target_dir.was_clean:
                    # No clean end comes between the two renames: the log is gone, and the copy may have less.
                    target_dir.distrust()
                    reason = "its copy may have less"
                    owner.ports.log(
                        "warning", "log.missing", partition=str(partition), reason=reason
                    )
                if current is target_dir:
                    self.drop(partition)
                elif current is not None and log.topic_id != owner.logs[partition].topic_id:
                    self._begin_again(partition, target_dir)
                elif current is None and partition in deleted and owner.any_offline:
                    unclear.add(partition)
                elif current is None and partition in deleted:
                    self._promote(partition, target_dir, log)
                    self._disk.sync_dir(target_dir.path)
            except OSError as error:
                owner.fail(target_dir, f"opening {log.directory} failed: {error}")
        for directory, names in leftovers.items():
            for name in names:
                if deleted_partition_of(name) not in unclear:
                    owner.delayed_delete.remove_now(directory, f"{directory.path}/{name}")

    def _begin_again(self, partition: TopicPartition, target_dir: LogDirectory) -> None:
        """Drop a copy whose topic is unknown and begin again: the file with the topic id is durable only with
        the first sync, which may come late. If the copy replaced the log, the next start would find
        another topic's log, or a corrupt directory."""
        self.drop(partition)
        if target_dir.is_online:
            with suppress(KafkaError):  # it failed just now
                self.create(partition, target_dir, self._directories.logs[partition])

    def _adopt(self, directory: LogDirectory, log: PartitionLog) -> None:
        log.durability.watch_recovery_point(directory.lower_recovery_points)
        directory.futures[log.partition] = log
        self.logs[log.partition] = log
        self._target_dirs[log.partition] = directory

    # -- logs ------------------------------------------------------------------------------------

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        return self._target_dirs.get(partition)

    def create(
        self, partition: TopicPartition, directory: LogDirectory, source: PartitionLog
    ) -> PartitionLog:
        """An empty future log of `source` in `directory`. Raises :class:`KafkaError`: KAFKA_STORAGE_ERROR,
        INVALID_TOPIC_EXCEPTION where its name would be too long."""
        name = name_of_future(partition, self._directories.delayed_delete.unique())
        if len(name.encode()) > NAME_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        try:
            if partition in directory.in_checkpoints:
                directory.write_all_checkpoints()  # of a log by this name that was here before
            log = open_log(
                self._directories.files,
                f"{directory.path}/{name}",
                partition,
                source.config,
                LogCheckpoints(clean=False, log_start_offset=source.log_start_offset),
                topic_id=source.topic_id,
            ).log
            if source.topic_id is not None:
                directory.write_topic_id(name, source.topic_id)
        except OSError as error:
            self._directories.fail(directory, f"creating {name} failed: {error}")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._adopt(directory, log)
        return log

    def drop(self, partition: TopicPartition) -> None:
        """The copy is not wanted any more: its files go after ``file.delete.delay.ms``."""
        log = self.logs.pop(partition, None)
        directory = self._target_dirs.pop(partition, None)
        if log is not None and directory is not None:
            directory.futures.pop(partition, None)
            self._directories.delayed_delete.delete(directory, log)
            self._on_gone()

    def on_offline(self, directory: LogDirectory) -> None:
        """`directory` failed: its copies are gone, and what they were made of lives."""
        for partition, log in directory.futures.items():
            del self.logs[partition], self._target_dirs[partition]
            for segment in log.segments:
                segment.close()
        directory.futures.clear()
        self._on_gone()

    # -- durability ------------------------------------------------------------------------------

    def is_syncing(self, partition: TopicPartition) -> bool:
        return partition in self._syncing

    def sync(self, partition: TopicPartition, done: Callable[[], None]) -> None:
        """Make the copy durable in the background. `done` is called also where it is gone by then."""
        log, directory = self.logs[partition], self._target_dirs[partition]
        self._syncing.add(partition)

        def finish(result: object) -> None:
            self._syncing.discard(partition)
            if self.logs.get(partition) is log:
                if isinstance(result, BaseException):
                    self._directories.fail(directory, f"syncing {log.directory} failed: {result}")
                else:
                    on_synced()
            done()

        try:
            job, on_synced = log.sync_job()
        except OSError as error:
            self._syncing.discard(partition)
            self._directories.fail(directory, f"{log.directory}: {error}")
            return
        self._directories.ports.background.run(f"sync {directory.path}", job, finish)

    # -- the swap --------------------------------------------------------------------------------

    def replace_current(self, partition: TopicPartition) -> PartitionLog:
        """Put the future log, which holds all that the current one does, in its place; the current one's
        files go later. The partition's log from now on. Blocks for one sync of a directory. Raises
        :class:`KafkaError` KAFKA_STORAGE_ERROR where a directory failed: the other one's log lives."""
        owner, target_dir, future = (
            self._directories,
            self._target_dirs[partition],
            self.logs[partition],
        )
        current, source_dir = owner.logs[partition], owner.directory_of(partition)
        assert source_dir is not None and future.log_end_offset == current.log_end_offset
        try:
            inherit(future, current)
        except OSError as error:
            raise self._failed(target_dir, partition, error) from error
        owner.detach(partition)
        try:
            aside = owner.delayed_delete.set_aside(source_dir, current)
            self._disk.sync_dir(source_dir.path)
        except OSError as error:
            # The copy is whole: it serves in place of the log that cannot even be renamed.
            owner.fail(source_dir, f"moving {partition} out of it failed: {error}")
            return self.replace_missing(partition)
        try:
            self._promote(partition, target_dir, future)
        except OSError as error:
            try:
                self._disk.rename(aside, current.directory)
            except OSError as worse:
                owner.fail(source_dir, f"moving {partition} back failed: {worse}")
            else:
                owner.add_log(source_dir, current)
            raise self._failed(target_dir, partition, error) from error
        delay = current.config.file_delete_delay_ms
        self._sync_names(
            target_dir, lambda: owner.delayed_delete.add(source_dir, [aside], delay, is_tree=True)
        )
        return future

    def replace_missing(self, partition: TopicPartition) -> PartitionLog:
        """The future log becomes the current one, of which nothing is left. Raises :class:`KafkaError`
        KAFKA_STORAGE_ERROR."""
        log, target_dir = self.logs[partition], self._target_dirs[partition]
        try:
            self._promote(partition, target_dir, log)
        except OSError as error:
            raise self._failed(target_dir, partition, error) from error
        self._sync_names(target_dir, lambda: None)
        return log

    def _failed(
        self, target_dir: LogDirectory, partition: TopicPartition, error: OSError
    ) -> KafkaError:
        self._directories.fail(target_dir, f"moving {partition} into it failed: {error}")
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _promote(
        self, partition: TopicPartition, target_dir: LogDirectory, log: PartitionLog
    ) -> None:
        target = f"{target_dir.path}/{partition}"
        for segment in log.segments:
            segment.close()
        self._disk.rename(log.directory, target)
        relocate(log, target)
        del self.logs[partition], self._target_dirs[partition], target_dir.futures[partition]
        self._directories.add_log(target_dir, log)
        self._directories.cleaner.on_mended(partition)  # by what it was copied from
        self._directories.ports.log(
            "info",
            "log.moved",
            partition=str(partition),
            to=target_dir.path,
            end=log.log_end_offset,
        )

    def _sync_names(self, target_dir: LogDirectory, then: Callable[[], None]) -> None:
        """`then`, once the new name is durable. Until it is, the log that was set aside has to stay: the
        next start may find the copy under its old name, and must see that it was whole."""

        def finish(result: object) -> None:
            if isinstance(result, BaseException):
                self._directories.fail(target_dir, f"syncing {target_dir.path} failed: {result}")
            else:
                then()

        path, disk = target_dir.path, self._disk
        self._directories.ports.background.run(f"sync {path}", lambda: disk.sync_dir(path), finish)

    def describe(self) -> dict[str, object]:
        return {str(name): log.directory for name, log in sorted(self.logs.items())}
