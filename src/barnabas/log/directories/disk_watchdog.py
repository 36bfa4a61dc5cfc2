"""Disks that answer nothing: jobs of a log directory that neither end nor fail.

A disk that returns errors says so. One that hangs (a lost network volume, a controller that resets for ever)
keeps its jobs, and everybody who waits for them. So the directory's jobs are counted, and one of which
none has ended for `DISK_SILENT_MS_MAX` goes offline like one that failed: others have its replicas.

Silence is counted in ticks of the owner's clock, not in time: a process that was suspended, or a host that
slept, finds its jobs old through no fault of the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas import limits
from barnabas.ports import Background

T = TypeVar("T")


class DiskWatchdog:
    """How long the jobs of one directory have gone without any of them ending."""

    __slots__ = ("pending", "ticks")

    def __init__(self) -> None:
        self.pending = 0
        self.ticks = 0

    def run(
        self,
        background: Background,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        """Run as `background.run` does, and count."""

        def over(result: T | BaseException) -> None:
            self.pending -= 1
            self.ticks = 0
            done(result)

        self.pending += 1
        background.run(queue, job, over)

    def tick(self, tick_ms: float) -> bool:
        """One more tick has passed; whether the silence is too long."""
        self.ticks = self.ticks + 1 if self.pending else 0
        return self.ticks * tick_ms > limits.DISK_SILENT_MS_MAX
