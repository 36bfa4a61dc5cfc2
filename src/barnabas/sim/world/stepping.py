"""A background job that runs step by step, while its node does other things.

On a real machine a job runs on its own thread. Between two of its calls on the disk the owner may append,
truncate, rename or delete, and the process may die. A stepped job has its own thread as well, but only one
thread of a run executes at a time, and an event decides which one. So one seed still gives one trace. (A lock
that a job holds when its process dies would stay locked; nothing below the node uses locks.)
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from threading import Lock
from typing import Any

from barnabas.sim.world.world import Killed


class SteppedJob:
    """One job. The caller of :meth:`resume` waits until the job stops again, or is over."""

    __slots__ = ("_began", "_go", "_job", "_stopped", "_unwinds", "is_over", "result")

    def __init__(self, job: Callable[[], Any]) -> None:
        self._job = job
        self._go, self._stopped = Lock(), Lock()
        self._go.acquire()
        self._stopped.acquire()
        self._began = False
        self._unwinds = False
        self.is_over = False
        self.result: Any = None
        """The job's result, or the exception that it raised."""

    def resume(self) -> None:
        if self._began:
            self._go.release()
        else:
            self._began = True
            # Not a threading.Thread: its `start` also waits until the thread runs.
            start_new_thread(self._run, ())
        self._stopped.acquire()

    def stop(self) -> None:
        """Called within the job: other threads run until it is the job's turn again."""
        if self._unwinds:
            return
        self._stopped.release()
        self._go.acquire()
        if self._unwinds:
            raise Killed

    def unwind(self) -> None:
        """Its process is dead: the job ends where it stopped."""
        self._unwinds = True
        if self._began and not self.is_over:
            self.resume()

    def _run(self) -> None:
        try:
            self.result = self._job()
        except (Exception, Killed) as error:  # noqa: BLE001 - it goes to the caller
            self.result = error
        self.is_over = True
        self._stopped.release()
