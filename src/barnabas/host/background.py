"""Blocking work off the node's thread: named queues in order, over a few threads.

Invariants: of one queue at most one job runs at a time, in the order given; `done` runs on the loop's
thread, in the order the jobs of its queue ended; after `stop` nothing new starts. A job that is stuck
(its disk hangs) does not keep a thread from the others' jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from barnabas import limits
from barnabas.host.loop import Loop

T = TypeVar("T")
_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class HostBackground:
    """``ports.Background`` over threads, which start when they are first needed."""

    def __init__(self, loop: Loop, threads: int = limits.BACKGROUND_THREADS_MAX) -> None:
        self._loop = loop
        self._threads_max = threads
        self._threads: list[Thread] = []
        self._work: SimpleQueue[tuple[str, _Job] | None] = SimpleQueue()
        self._queues: dict[str, deque[_Job]] = {}
        self._began_s: dict[int, float] = {}
        """When the job of each thread, by number, began; absent where it has none."""
        self._finished: deque[tuple[str, Callable[[Any], None], Any]] = deque()
        self._wake_is_due = False
        self._stopped = False
        self.doing = ""
        """The queue whose job ended last, for people."""
        self.jobs = 0

    def run(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        if self._stopped:
            return
        self.jobs += 1
        waiting = self._queues.get(queue)
        if waiting is not None:
            waiting.append((job, done))
            return
        self._queues[queue] = deque()
        if self._wants_thread():
            self._start_thread()
        self._work.put((queue, (job, done)))

    def stop(self, *, wait: bool = True) -> None:
        """Let the running jobs end; drop what waits and what ended without being told."""
        self._stopped = True
        for waiting in self._queues.values():
            waiting.clear()
        for _ in self._threads:
            self._work.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def describe(self) -> dict[str, int]:
        waiting = sum(len(queue) for queue in self._queues.values())
        return {"jobs": self.jobs, "queues": len(self._queues), "waiting_jobs": waiting}

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
        number = len(self._threads)
        thread = Thread(
            target=self._run_jobs, args=(number,), name=f"background-{number}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

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
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        # Before the look: a thread that ends a job after the last look wakes the loop again.
        self._wake_is_due = False
        until = monotonic() + limits.SLICE_MS / 1000
        while self._finished:
            queue, done, result = self._finished.popleft()
            waiting = self._queues[queue]
            if waiting:
                self._work.put((queue, waiting.popleft()))
            else:
                del self._queues[queue]
            try:
                done(result)
            except Exception as error:  # noqa: BLE001 - one caller's fault is not the others'
                self._loop.fault("a background job's callback failed", error)
            self.doing = queue
            if self._finished and monotonic() >= until:
                if not self._wake_is_due:
                    self._wake_is_due = True
                    self._loop.call_soon(self._tell)
                return
