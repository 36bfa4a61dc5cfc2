"""Which log compaction takes next: the dirtiest of those that are due.

As things are, or as they would be if the checkpoint of the recovery points had those of now: a log whose
round is due only then is held back by nothing else.

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
    """What choosing needs of the log directories."""

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]: ...
    def directory_of(self, partition: TopicPartition) -> LogDirectory | None: ...
    def fail(self, directory: LogDirectory, reason: str) -> None: ...


class Chosen(NamedTuple):
    """A log whose compaction is due, and what a round on it would do."""

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
    """The log that needs a round most; None where none does. `as_checkpointed`: of those that the checkpoint
    lags behind, as if it had the recovery points of now."""
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
        if as_checkpointed and log.recovery_point <= log.compactable_to:
            continue
        try:
            first = max(min(first_dirty.get(partition, 0), log.lowest_cut), 0)
            durable_to = log.recovery_point if as_checkpointed else log.compactable_to
            plan = cleaning_pass.make_plan(log, first, wall, durable_to)
        except OSError as error:
            among.fail(directory, f"{partition}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - a fault of this program: raised; other logs continue
            raise_soon(ports.wakeups, error)
            continue
        if plan.is_due and (best is None or plan.dirty_ratio > best.plan.dirty_ratio):
            best = Chosen(log, directory, plan)
    return best


class MissingCheckpoint:
    """The checkpoint of the recovery points that a due round waits for; one at a time."""

    def __init__(
        self, write: Callable[[LogDirectory, Callable[[], None]], None], done: Callable[[], None]
    ) -> None:
        """`write` calls back once it is over, whatever became of it; `done` is called then, unless `cancel`
        was."""
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
