"""``flush.messages``: what was appended counts as written once the sync that it asks for is done.

Kafka syncs within the append. Here the sync runs on the disk's thread while the owner continues, and
:attr:`PartitionLog.flushed_end_offset` says meanwhile how far the log may be vouched for: the high watermark
does not pass it, a follower does not tell its leader of more, and acks=1 waits for it. One sync of a log is
under way at a time; what is appended meanwhile shares the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.log.config import FOREVER_MS
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports
from barnabas.types import TopicPartition


class FlushedLogs(Protocol):
    """The part of the log directories that flushing needs."""

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]: ...
    def directory_of(self, partition: TopicPartition) -> LogDirectory | None: ...
    def fail(self, directory: LogDirectory, reason: str) -> None: ...


class FlushScheduler:
    """The syncs that ``flush.messages`` asked for."""

    def __init__(
        self, ports: Ports, logs: FlushedLogs, on_flushed: Callable[[TopicPartition], None]
    ) -> None:
        """`on_flushed` is called whenever the written end of a log moved, or will not move any more."""
        self._ports = ports
        self._logs = logs
        self._wanted: dict[PartitionLog, int] = {}
        """Up to where each log has to be synced; present while a sync of it is under way."""
        self._on_flushed = on_flushed

    def demand(self, log: PartitionLog, before: int) -> None:
        """Demand a sync of what was appended from offset `before` on."""
        log.durability.require_flush(before)
        is_running = log in self._wanted
        self._wanted[log] = log.log_end_offset
        if not is_running:
            self._sync(log)

    def _sync(self, log: PartitionLog) -> None:
        directory = self._logs.directory_of(log.partition)
        if directory is None or self._logs.logs.get(log.partition) is not log:
            self._give_up(log)
            return
        end, cuts = log.log_end_offset, log.generations.truncation_count
        try:
            job, on_synced = log.sync_log_job()
        except OSError as error:
            del self._wanted[log]
            self._logs.fail(directory, f"{log.partition}: {error}")
            return

        def finish(result: object) -> None:
            if self._logs.logs.get(log.partition) is not log:
                self._give_up(log)
            elif isinstance(result, BaseException):
                del self._wanted[log]
                self._logs.fail(directory, f"syncing {log.partition} failed: {result}")
            else:
                on_synced()
                self._on_synced(log, end, is_whole=log.generations.truncation_count == cuts)

        directory.watchdog.run(self._ports.background, f"flush {directory.path}", job, finish)

    def _on_synced(self, log: PartitionLog, end: int, *, is_whole: bool) -> None:
        """Everything below `end` is durable, unless the log was cut meanwhile (not `is_whole`)."""
        if is_whole and self._wanted[log] <= end:
            del self._wanted[log]
            log.durability.on_flushed(FOREVER_MS)
        elif is_whole:
            log.durability.on_flushed(end)
        if log in self._wanted:
            self._wanted[log] = min(self._wanted[log], log.log_end_offset)
            self._sync(log)
        self._on_flushed(log.partition)

    def _give_up(self, log: PartitionLog) -> None:
        """The log was deleted, moved, or its directory failed."""
        del self._wanted[log]
        self._on_flushed(log.partition)
