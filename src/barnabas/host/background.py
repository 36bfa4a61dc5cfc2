"""Blocking work off the node's thread: named queues in order, over a few threads.

Invariants: of one queue at most one job runs at a time, in the order given; `done` runs on the loop's
thread, in the order the jobs of its queue ended; after `stop` nothing new starts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from barnabas import limits

T = TypeVar("T")
_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class HostBackground:
    """``ports.Background`` over threads."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: int = limits.BACKGROUND_THREADS_MAX
    ) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="background")
        self._queues: dict[str, deque[_Job]] = {}
        self._finished: deque[tuple[Callable[[Any], None], Any]] = deque()
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
        self._pool.submit(self._work, queue, job, done)

    def stop(self, *, wait: bool = True) -> None:
        """Let the running jobs end; drop what waits and what ended without being told."""
        self._stopped = True
        for waiting in self._queues.values():
            waiting.clear()
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def describe(self) -> dict[str, int]:
        waiting = sum(len(queue) for queue in self._queues.values())
        return {"jobs": self.jobs, "queues": len(self._queues), "waiting_jobs": waiting}

    def _work(self, queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """On a thread: one job. The next of the queue starts when the loop has heard of this one."""
        try:
            result = job()
        except BaseException as error:  # noqa: BLE001 - it is handed to `done`, whatever it is
            result = error
        self._finished.append((lambda value: self._told(queue, done, value), result))
        if not self._wake_is_due:
            self._wake_is_due = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                return  # the loop was closed meanwhile: nobody is left to hear of it

    def _told(self, queue: str, done: Callable[[Any], None], result: Any) -> None:
        waiting = self._queues[queue]
        if waiting:
            self._pool.submit(self._work, queue, *waiting.popleft())
        else:
            del self._queues[queue]
        done(result)

    def _tell(self) -> None:
        # Before the look: a thread that ends a job after the last look wakes the loop again.
        self._wake_is_due = False
        while self._finished:
            tell, result = self._finished.popleft()
            try:
                tell(result)
            except Exception as error:  # noqa: BLE001 - one caller's fault is not the others'
                self._loop.call_exception_handler(
                    {"message": "a background job's callback failed", "exception": error}
                )
