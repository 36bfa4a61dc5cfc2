"""The searches by timestamp of one ListOffsets request.

They read the disk on another thread. The response already has the answers that need no disk; each
:class:`Search` fills in one of the others. A log that was truncated, lost a segment or moved to
another directory meanwhile is searched again.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.partitions.partition import Partition
from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.timestamp_lookup import LogMoved, Stamped
from barnabas.ports import Ports
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

TRIES_MAX = 4
SEARCH_QUEUES = 4
"""Queues of searches per log directory."""

Settle = Callable[[Stamped | KafkaError | None], None]
"""Writes the record that was found, or the error, into the response."""


class Search:
    """One search in one log."""

    def __init__(self, partition: Partition, timestamp: int | None, settle: Settle) -> None:
        """`timestamp` in ms; None asks for the largest one. Raises KafkaError."""
        self.partition = partition
        self.timestamp = timestamp
        self.settle = settle
        self.tries = 0
        self._log, self._state = partition.log, (-1, -1)
        self.log_dir = ""
        """The log directory of the searched log."""
        self.job = self._make_job()

    def _make_job(self) -> Callable[[], Stamped | None]:
        log = self.partition.online_log()
        self.tries += 1
        self._log, self._state, self.log_dir = (
            log,
            (log.generations.truncation_count, log.generations.replacement_count),
            log.log_dir,
        )
        return log.search_job(self.timestamp)

    def try_again(self) -> bool:
        """Make a new job and return True, or settle the search and return False."""
        try:
            if self.tries < TRIES_MAX:
                self.job = self._make_job()
                return True
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the log of {self.partition.name} does not keep still",
            )
        except KafkaError as error:
            self.settle(error)
            return False

    def on_result(self, result: Stamped | BaseException | None) -> bool:
        """Take the job's result, and return whether the search is settled."""
        partition = self.partition
        log = partition.log
        if isinstance(result, LogMoved):
            return False
        if log is not None and (
            log is not self._log
            or (log.generations.truncation_count, log.generations.replacement_count) != self._state
        ):
            return False
        if isinstance(result, CorruptLogError):
            self.settle(partition.on_corrupt(result))
        elif isinstance(result, OSError):
            self.settle(partition.on_disk_error(result))
        elif isinstance(result, BaseException):
            raise result
        else:
            self.settle(result)
        return True


def run_searches(ports: Ports, searches: list[Search], response: Message) -> Parked:
    """Answer with `response` once all of `searches` are settled."""
    parked, groups = Parked(), dict[str, list[Search]]()
    for search in searches:
        groups.setdefault(search.log_dir, []).append(search)
    left = len(groups)

    def settled() -> None:
        nonlocal left
        left -= 1
        if not left:
            parked.complete(response)

    for group in groups.values():
        _run(ports, group, settled)
    return parked


def _run(ports: Ports, searches: list[Search], then: Callable[[], object]) -> None:
    jobs = [search.job for search in searches]

    def read() -> list[Stamped | BaseException | None]:
        return [_outcome(job) for job in jobs]

    def done(results: list[Stamped | BaseException | None] | BaseException) -> None:
        if isinstance(results, BaseException):
            raise results
        left = [
            search
            for search, result in zip(searches, results, strict=True)
            if not search.on_result(result) and search.try_again()
        ]
        if left:
            _run(ports, left, then)
        else:
            then()

    first = searches[0]
    queue = f"timestamps {first.log_dir} {first.partition.index % SEARCH_QUEUES}"
    ports.background.run(queue, read, done)


def _outcome(job: Callable[[], Stamped | None]) -> Stamped | BaseException | None:
    try:
        return job()
    except (OSError, CorruptLogError, LogMoved) as error:
        return error
