"""Deletes files that are no longer needed after a delay: deleted partitions, removed segments.

Files are renamed first, so that a start ignores them, and removed in the background once their delay
(``file.delete.delay.ms``) has passed. What cannot be removed takes up room and does no other harm: that is a
warning, and the removal is tried again, less and less often. It is no failure of the directory.

Source: Kafka's ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from barnabas.log.directories.entry_names import DELETE_SUFFIX, STRAY_SUFFIX
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports

NAME_MAX = 255
"""Longest file name in bytes."""
RETRY_MS = 60_000.0
RETRY_MS_MAX = 3_600_000.0


class _Old(NamedTuple):
    when_ms: float
    directory: LogDirectory
    path: str
    is_tree: bool
    failures: int = 0


class DelayedDelete:
    """Files and directories that are to be removed. `fail` takes a log directory offline with a reason."""

    def __init__(self, ports: Ports, fail: Callable[[LogDirectory, str], None]) -> None:
        self._ports = ports
        self._fail = fail
        self._rng = ports.rng("log.deletion")
        self._waiting: list[_Old] = []

    def unique(self) -> str:
        """A random part for a file name: 32 hexadecimal digits, like Kafka's UUIDs without dashes."""
        return self._rng.randbytes(16).hex()

    def set_aside(
        self, directory: LogDirectory, log: PartitionLog, suffix: str = DELETE_SUFFIX
    ) -> str:
        """Close `log` and rename its directory, so that its name is free. Returns the new path. Raises
        ``OSError``."""
        log.close(clean=False)
        topic, number = log.partition
        rest = f"-{number}.{self.unique()}{suffix}"
        # If the name is too long, cut the topic: Kafka does not start if the partition's number is missing.
        target = f"{directory.path}/{topic[: NAME_MAX - len(rest)]}{rest}"
        self._ports.disk.rename(log.directory, target)
        return target

    def delete(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Delete `log` with all its files after ``file.delete.delay.ms``. A disk error takes `directory`
        offline."""
        try:
            target = self.set_aside(directory, log)
        except OSError as error:
            self._fail(directory, f"deleting {log.directory} failed: {error}")
            return
        self.add(directory, [target], log.config.file_delete_delay_ms, is_tree=True)

    def set_astray(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Rename a log that belongs to no replica of this broker to ``...-stray``. Its files stay for the
        operator; the broker does not open them. A disk error takes `directory` offline."""
        try:
            target = self.set_aside(directory, log, STRAY_SUFFIX)
            self._ports.disk.sync_dir(directory.path)
        except OSError as error:
            self._fail(directory, f"setting {log.directory} aside failed: {error}")
            return
        self._ports.log("warning", "log.stray", partition=str(log.partition), now=target)

    def add(
        self,
        directory: LogDirectory,
        paths: Iterable[str],
        delay_ms: float,
        *,
        is_tree: bool = False,
    ) -> None:
        when = self._ports.clock.now_ms() + delay_ms
        self._waiting += [_Old(when, directory, path, is_tree) for path in paths]

    def forget(self, directory: LogDirectory) -> None:
        """Forget the files in `directory`, which went offline."""
        self._waiting = [old for old in self._waiting if old.directory is not directory]

    def remove_due(self, now_ms: float) -> None:
        """Remove the files whose delay has passed, in the background."""
        due: dict[str, list[_Old]] = {}
        for old in self._waiting:
            if old.when_ms <= now_ms:
                due.setdefault(old.directory.path, []).append(old)
        if due:
            self._waiting = [old for old in self._waiting if old.when_ms > now_ms]
        for olds in due.values():
            self._remove(olds[0].directory, olds)

    def remove_now(self, directory: LogDirectory, path: str) -> None:
        """Remove the directory `path`, which a crash left behind. Blocks."""
        old = _Old(self._ports.clock.now_ms(), directory, path, True)
        for failed, error in self._remove_each([old]):
            self._try_again(failed, error)

    def _remove(self, directory: LogDirectory, olds: list[_Old]) -> None:
        def finish(result: list[tuple[_Old, OSError]] | BaseException) -> None:
            if isinstance(result, list) and directory.is_online:
                for old, error in result:
                    self._try_again(old, error)

        job = partial(self._remove_each, olds)
        self._ports.background.run(f"remove {directory.path}", job, finish)

    def _remove_each(self, olds: list[_Old]) -> list[tuple[_Old, OSError]]:
        """Those that could not be removed. Blocks."""
        disk, failed = self._ports.disk, []
        for old in olds:
            try:
                (disk.remove_tree if old.is_tree else disk.remove)(old.path)
            except FileNotFoundError:
                pass  # its log was deleted or moved meanwhile
            except OSError as error:
                failed.append((old, error))
        return failed

    def _try_again(self, old: _Old, error: OSError) -> None:
        wait_ms = min(RETRY_MS * 2**old.failures, RETRY_MS_MAX)
        reason, retry_s = str(error), int(wait_ms / 1000)
        self._ports.log("warning", "log.not_removed", path=old.path, reason=reason, retry_s=retry_s)
        again = self._ports.clock.now_ms() + wait_ms
        self._waiting.append(old._replace(when_ms=again, failures=min(old.failures + 1, 16)))
