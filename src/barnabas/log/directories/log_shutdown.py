"""The end of a broker's logs: what a clean shutdown leaves behind, for thousands of them.

A log takes half a millisecond of writes and several syncs to close. So they are closed a few at a time: what
is written behind is written in a turn of the loop, the syncs follow in the background on several lanes per
directory, and others (the quorum's replica, the controller) are served in between. When all logs
of a directory are closed, its checkpoints and then the proof of a clean shutdown are written.

No caller may append any more once this has begun. A directory in which a write fails goes offline: it
has no proof, and the next start recovers its logs. Source: Kafka's LogManager.shutdown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

from barnabas.limits import SLICE_MS
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.flush_jobs import close_job
from barnabas.ports import Ports

PARALLEL_CLOSES = 4
"""The closes of one directory at a time. More would only queue at the device."""
TAKEN_MAX = 16
"""Logs that one lane closes at once."""

Job = Callable[[], None]


class LogShutdown:
    """Closes the logs of `directories`; `done` once, when all are closed or failed."""

    def __init__(
        self,
        ports: Ports,
        directories: list[LogDirectory],
        proof: Callable[[LogDirectory], int | None],
        done: Callable[[], None],
    ) -> None:
        """`proof` is the broker epoch to vouch for, None where the last proof still holds."""
        self._ports = ports
        self._proof = proof
        self._done = done
        self._open = {directory: True for directory in directories if directory.is_online}
        self.closed = 0
        """Number of logs closed so far; shows a waiting process that the shutdown makes progress."""

    def start(self) -> None:
        if not self._open:
            self._done()
        for directory in list(self._open):
            _Lanes(self, directory).start()

    def over(self, directory: LogDirectory) -> None:
        """Nothing is left to do in `directory`."""
        if self._open.pop(directory, False) and not self._open:
            self._done()

    def run(self, directory: LogDirectory, lane: int, job: Job, then: Callable[[], None]) -> None:
        """`job` in the background; `then`, unless it failed."""

        def finish(result: object) -> None:
            if isinstance(result, BaseException):
                self.fail(directory, result)
            elif directory.is_online:
                then()
            else:  # it failed elsewhere: do not wait for it
                self.over(directory)

        queue = f"close {directory.path} {lane}"
        directory.watchdog.run(self._ports.background, queue, job, finish)

    def fail(self, directory: LogDirectory, error: BaseException) -> None:
        if directory.is_online:
            directory.offline_reason = f"closing it failed: {error}"
            self._ports.log(
                "error", "log.directory_offline", path=directory.path, reason=str(error)
            )
        self.over(directory)

    def prove(self, directory: LogDirectory) -> None:
        """All its logs are closed."""
        job = directory.closing_job(self._proof(directory))
        self.run(directory, 0, job, partial(self.over, directory))

    def now_ms(self) -> float:
        return self._ports.clock.now_ms()

    def soon(self, callback: Callable[[], None]) -> None:
        """In a turn of the loop of its own."""
        self._ports.wakeups.call_soon(callback)


class _Lanes:
    """One directory."""

    def __init__(self, log_shutdown: LogShutdown, directory: LogDirectory) -> None:
        self._log_shutdown = log_shutdown
        self._directory = directory
        self._left = iter([log for _, log in sorted(directory.all_logs.items())])
        self._under_way = PARALLEL_CLOSES

    def start(self) -> None:
        for lane in range(PARALLEL_CLOSES):
            self._log_shutdown.soon(partial(self._close_next, lane))

    def _close_next(self, lane: int) -> None:
        """Close the next few, as far as this turn allows."""
        closing, directory = self._log_shutdown, self._directory
        if not directory.is_online:  # by another lane, or elsewhere
            closing.over(directory)
            return
        until_ms = closing.now_ms() + SLICE_MS / 2
        jobs: list[Job] = []
        finishes: list[Job] = []
        try:
            for log in islice(self._left, TAKEN_MAX):
                job, finish = close_job(log)
                jobs.append(job)
                finishes.append(finish)
                if closing.now_ms() >= until_ms:
                    break
        except OSError as error:
            closing.fail(directory, error)
            return
        if jobs:
            closing.run(directory, lane, partial(_all, jobs), partial(self._closed, lane, finishes))
            return
        self._under_way -= 1
        if not self._under_way:
            closing.prove(directory)

    def _closed(self, lane: int, finishes: list[Job]) -> None:
        try:
            _all(finishes)
        except OSError as error:
            self._log_shutdown.fail(self._directory, error)
            return
        self._log_shutdown.closed += len(finishes)
        self._close_next(lane)


def _all(jobs: list[Job]) -> None:
    for job in jobs:
        job()
