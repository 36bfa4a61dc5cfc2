"""Blocking work off the node's thread: named queues in order, over a few threads.

Invariants: of one queue at most one job runs at a time, in the order given; `done` runs on the loop's
thread, in the order the jobs of its queue ended; after `stop` nothing new starts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
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
        self._finished: deque[tuple[str, Callable[[Any], None], Any]] = deque()
        self._wake_is_due = False
        self._stopped = False
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
        if len(self._threads) < min(len(self._queues), self._threads_max):
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

    def _start_thread(self) -> None:
        name = f"background-{len(self._threads)}"
        thread = Thread(target=self._run_jobs, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_jobs(self) -> None:
        """On a thread. The next job of a queue starts when the loop has heard of this one."""
        while (item := self._work.get()) is not None:
            queue, (job, done) = item
            if self._stopped:
                continue
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - it is handed to `done`, whatever it is
                result = error
            self._finished.append((queue, done, result))
            if not self._wake_is_due:
                self._wake_is_due = True
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        # Before the look: a thread that ends a job after the last look wakes the loop again.
        self._wake_is_due = False
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
