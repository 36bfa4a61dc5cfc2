"""Selects the next log to compact: the dirtiest of those that are due.

A pass cleans only below the checkpointed recovery point. `as_checkpointed` asks which log would be due if the
checkpoint had the current recovery points: only the checkpoint holds that log back, so it is written.

Source: ``LogCleanerManager.grabFilthiestCompactedLog`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple, Protocol

from barnabas.log.compaction import cleaning_pass
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports, raise_soon
from barnabas.types import TopicPartition


class Candidates(Protocol):
    """The part of `LogDirectories` that the selection uses."""

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]: ...
    def directory_of(self, partition: TopicPartition) -> LogDirectory | None: ...
    def fail(self, directory: LogDirectory, reason: str) -> None: ...


class Chosen(NamedTuple):
    """A log whose compaction is due, and the plan of its cleaning pass."""

    log: PartitionLog
    directory: LogDirectory
    plan: cleaning_pass.CleaningPlan


def dirtiest(
    ports: Ports,
    among: Candidates,
    first_dirty: Mapping[TopicPartition, int],
    left_alone: Container[TopicPartition],
    *,
    as_checkpointed: bool = False,
) -> Chosen | None:
    """The due log with the highest dirty ratio; None if none is due. Logs in `left_alone` are skipped.
    `first_dirty`: where the dirty part of each log begins. `as_checkpointed`: only logs whose checkpointed
    recovery point lags behind, as if the checkpoint had the current ones."""
    best: Chosen | None = None
    wall = ports.clock.wall_ms()
    logs = among.logs
    old = [name for name, log in logs.items() if len(log.segments) > 1 and log.config.compact]
    for partition in sorted(old):
        log, directory = logs.get(partition), among.directory_of(partition)
        if log is None or directory is None:  # its directory failed just now
            continue
        if partition in left_alone:
            continue
        if as_checkpointed and log.recovery_point <= log.durability.compactable_to:
            continue
        try:
            first = max(min(first_dirty.get(partition, 0), log.generations.lowest_cut), 0)
            durable_to = log.recovery_point if as_checkpointed else log.durability.compactable_to
            plan = cleaning_pass.make_plan(log, first, wall, durable_to)
        except OSError as error:
            among.fail(directory, f"{partition}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - a bug: raised in a later turn; other logs continue
            raise_soon(ports.wakeups, error)
            continue
        if plan.is_due and (best is None or plan.dirty_ratio > best.plan.dirty_ratio):
            best = Chosen(log, directory, plan)
    return best


class MissingCheckpoint:
    """Writes the recovery point checkpoint that a due pass waits for; one at a time."""

    def __init__(
        self, write: Callable[[LogDirectory, Callable[[], None]], None], done: Callable[[], None]
    ) -> None:
        """`write` writes the checkpoint and calls back when it ended or failed; then `done` is called, unless
        `cancel` was called before."""
        self._write = write
        self._done = done
        self._is_awaited = False

    def write(self, directory: LogDirectory) -> None:
        self._is_awaited = True
        self._write(directory, self._over)

    def cancel(self) -> None:
        self._is_awaited = False

    def _over(self) -> None:
        if self._is_awaited:
            self._is_awaited = False
            self._done()
