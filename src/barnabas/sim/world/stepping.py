"""A background job that runs step by step, while its node does other things.

On a machine a job runs on a thread of its own: between two of its calls on the disk the owner may append,
truncate, rename or delete, and the process may die. The same happens here: a stepped job has a thread as
well, but only one thread of a run executes at a time, and an event decides which. One seed still gives one
trace. (A lock that such a job holds would never be free again: nothing below the node has any.)
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
        """What the job gave, or raised."""

    def resume(self) -> None:
        if self._began:
            self._go.release()
        else:
            self._began = True
            # Not by a Thread, whose start waits for it once more.
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
