"""Blocking work off the node's thread: named queues in order, over a few threads.

Invariants: of one queue at most one job runs at a time, in the order given, and none before `done` of the one
before it, which may put in place what the next one writes again; `done` runs on the loop's thread; after
`stop` nothing new starts. A job that is stuck (its disk hangs) does not keep a thread from the others' jobs.

Handing a job to a thread and hearing of its end costs some 100 µs of both, and two looks for events. An
fdatasync may take less, where a device answers out of a cache that outlives the power; so jobs that say
they may be `run_brief` are done at once for as long as they are (decision 17).
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
"""Until a thread that could not start is tried again."""
_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class Brevity:
    """Whether the next brief job of a queue is worth doing at once. It begins by watching some on threads."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = limits.JOBS_BRIEF_WATCHED
        """Jobs that go to a thread first."""

    @property
    def is_expected(self) -> bool:
        return self.left <= 0

    def note(self, took_s: float) -> None:
        """A job took so long, wherever it was done. The last of those that are watched has to be brief:
        no two that follow each other hold the loop up, and a disk that is always slow is not tried again."""
        times = took_s * 1000 / limits.JOB_BRIEF_MS
        if self.left > 0:
            if self.left > 1 or times <= 1:
                self.left -= 1
        elif times > 1:
            self.left = int(times * limits.JOBS_BRIEF_WATCHED)


class HostBackground:
    """``ports.Background`` over threads, which start when they are first needed."""

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
        """When the job of each thread, by number, began; absent where it has none."""
        self._finished: deque[tuple[str, Callable[[Any], None], Any]] = deque()
        self._wake_is_due = False
        self._retry_is_due = False
        self._stopped = False
        self.doing = ""
        """The queue whose job ended last, for people."""
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
        """Let the running jobs end, but for those that are stuck; drop what waits and what ended without
        a report."""
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
        """Start a thread. Where the system allows no more, jobs wait for those there are, and it is tried
        again: by the next job, or soon, since those who wait for their jobs may give no other."""
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
        """On a thread. The next job of a queue starts when the loop has heard of this one."""
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
        # Before the look: a thread that ends a job after the last look wakes the loop again.
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
                if has_more and waiting:  # `done` may have stopped it all
                    self._work.put((queue, waiting.popleft()))
            self.doing = queue
            if self._finished and monotonic() >= until:
                if not self._wake_is_due:
                    self._wake_is_due = True
                    self._loop.call_soon(self._deliver_results)
                return


def _watched(brevity: Brevity, job: Callable[[], T]) -> T:
    """On a thread; the loop reads what is noted here only when it has heard that the job is over."""
    begun_s = monotonic()
    try:
        return job()
    finally:
        brevity.note(monotonic() - begun_s)
