"""Blocking work off the node's thread: named queues in order, over a few threads.

Invariants: a queue runs one job at a time, in order. A job starts after `done` of the job before
it, which may prepare what the next one writes. `done` runs on the loop's thread. After `stop` no
job starts. A job that is stuck (its disk hangs) does not take a thread from other queues.

Handing a job to a thread and noticing its end costs both threads some 100 µs, and two polls. An
fdatasync may take less on a device whose cache survives a power loss. So jobs that may `run_brief`
run at once on the loop's thread for as long as they are brief (decision 17).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from barnabas import limits
from barnabas.host.loop import Loop

T = TypeVar("T")
THREAD_RETRY_S = 1.0
"""The time before a thread that could not start is tried again."""
_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class Brevity:
    """Decides whether the next brief job of a queue runs at once. It first watches some jobs on
    threads."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = limits.JOBS_BRIEF_WATCHED
        """The number of jobs that go to a thread before the decision."""

    @property
    def is_expected(self) -> bool:
        return self.left <= 0

    def note(self, took_s: float) -> None:
        """Note the duration of a job. The last watched job has to be brief: so no two slow jobs in
        a row hold up the loop, and a disk that is always slow is not tried again."""
        times = took_s * 1000 / limits.JOB_BRIEF_MS
        if self.left > 0:
            if self.left > 1 or times <= 1:
                self.left -= 1
        elif times > 1:
            self.left = int(times * limits.JOBS_BRIEF_WATCHED)


class HostBackground:
    """``ports.Background`` over threads; a thread starts when it is first needed."""

    def __init__(
        self,
        loop: Loop,
        threads: int = limits.BACKGROUND_THREADS_MAX,
        dedicated: Collection[str] = limits.DEDICATED_QUEUES,
    ) -> None:
        """The `dedicated` queues do not share the threads of the others."""
        self._dedicated = HostBackground(loop, len(dedicated), ()) if dedicated else None
        self._dedicated_queues = dedicated
        self._loop = loop
        self._threads_max = threads
        self._threads: list[Thread] = []
        self._work: SimpleQueue[tuple[str, _Job] | None] = SimpleQueue()
        self._queues: dict[str, deque[_Job]] = {}
        self._brevity: dict[str, Brevity] = {}
        self._began_s: dict[int, float] = {}
        """The time at which each thread's job began, by the thread's number; a thread without a job
        is absent."""
        self._finished: deque[tuple[str, Callable[[Any], None], Any]] = deque()
        self._wake_is_due = False
        self._retry_is_due = False
        self._stopped = False
        self.doing = ""
        """The queue whose job ended last, for the log."""
        self.jobs = self.jobs_at_once = 0

    def run_brief(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        if self._dedicated is not None and queue in self._dedicated_queues:
            self._dedicated.run_brief(queue, job, done)
            return
        brevity = self._brevity.get(queue)
        if brevity is None:
            brevity = self._brevity[queue] = Brevity()
        if brevity.left > 0 or queue in self._queues:
            self.run(queue, partial(_watched, brevity, job), done)
            return
        if self._stopped:
            return
        self.jobs += 1
        self.jobs_at_once += 1
        result: T | BaseException
        begun_s = monotonic()
        try:
            result = job()
        except Exception as error:  # noqa: BLE001 - it is handed to `done`, whatever it is
            result = error
        brevity.note(monotonic() - begun_s)
        done(result)

    def run(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        if self._dedicated is not None and queue in self._dedicated_queues:
            self._dedicated.run(queue, job, done)
            return
        if self._stopped:
            return
        self.jobs += 1
        waiting = self._queues.get(queue)
        if waiting is not None:
            waiting.append((job, done))
            return
        self._queues[queue] = deque()
        self._work.put((queue, (job, done)))
        if self._wants_thread():
            self._start_thread()

    def stop(self, *, wait: bool = True) -> None:
        """Wait for running jobs that are not stuck. Drop jobs that wait, and ends that were not
        reported."""
        if self._dedicated is not None:
            self._dedicated.stop(wait=wait)
        self._stopped = True
        for waiting in self._queues.values():
            waiting.clear()
        for _ in self._threads:
            self._work.put(None)
        if wait:
            until_s = monotonic() + limits.JOB_STUCK_S
            for thread in self._threads:
                thread.join(max(until_s - monotonic(), 0.0))

    def describe(self) -> dict[str, int]:
        waiting = sum(len(queue) for queue in self._queues.values())
        counts = {
            "jobs": self.jobs,
            "jobs_at_once": self.jobs_at_once,
            "queues": len(self._queues),
            "waiting_jobs": waiting,
        }
        for name, count in self._dedicated.describe().items() if self._dedicated else ():
            counts[name] += count
        return counts

    def _wants_thread(self) -> bool:
        threads, wanted = len(self._threads), min(len(self._queues), self._threads_max)
        if threads < wanted:
            return True
        if threads >= len(self._queues):
            return False
        began = monotonic() - limits.JOB_STUCK_S
        stuck = sum(at < began for at in list(self._began_s.values()))
        return (
            threads - stuck < wanted and threads < self._threads_max + limits.BACKGROUND_STUCK_MAX
        )

    def _start_thread(self) -> None:
        """Start a thread. If the system allows no more, jobs wait for the present threads. The next
        job tries again, and so does a timer, since callers that wait may submit no other job."""
        number = len(self._threads)
        thread = Thread(
            target=self._run_jobs, args=(number,), name=f"background-{number}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            if not self._retry_is_due:
                self._retry_is_due = True
                self._loop.call_later(THREAD_RETRY_S, self._retry)
            self._loop.fault(f"of {number + 1} background threads one cannot start", error)
            return
        self._threads.append(thread)

    def _retry(self) -> None:
        self._retry_is_due = False
        if not self._stopped and self._wants_thread():
            self._start_thread()

    def _run_jobs(self, number: int) -> None:
        """Run jobs on a thread. The next job of a queue starts when the loop knows that this one
        ended."""
        while (item := self._work.get()) is not None:
            queue, (job, done) = item
            if self._stopped:
                continue
            self._began_s[number] = monotonic()
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - it is handed to `done`, whatever it is
                result = error
            del self._began_s[number]
            self._finished.append((queue, done, result))
            if not self._wake_is_due:
                self._wake_is_due = True
                self._loop.call_soon_threadsafe(self._deliver_results)

    def _deliver_results(self) -> None:
        # Reset this first: a thread that ends a job after the look below wakes the loop again.
        self._wake_is_due = False
        until = monotonic() + limits.SLICE_MS / 1000
        while self._finished:
            queue, done, result = self._finished.popleft()
            waiting = self._queues[queue]
            has_more = bool(waiting)
            if not has_more:
                del self._queues[queue]
            try:
                done(result)
            except Exception as error:  # noqa: BLE001 - one caller's fault is not the others'
                self._loop.fault("a background job's callback failed", error)
            finally:
                if has_more and waiting:  # `done` may have called `stop`
                    self._work.put((queue, waiting.popleft()))
            self.doing = queue
            if self._finished and monotonic() >= until:
                if not self._wake_is_due:
                    self._wake_is_due = True
                    self._loop.call_soon(self._deliver_results)
                return


def _watched(brevity: Brevity, job: Callable[[], T]) -> T:
    """Run a job on a thread and note its duration; the loop reads the note after the job's end."""
    begun_s = monotonic()
    try:
        return job()
    finally:
        brevity.note(monotonic() - begun_s)
