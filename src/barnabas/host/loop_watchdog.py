"""Says where the node's thread is when it does not continue.

Writes to the page cache and most calls of the file system run on that thread, since they end at once. On a
disk that hangs (a lost network volume, a frozen file system) they do not, and no other thread is left to
say so: this thread is. It asks the loop for a sign of life once a second; where none comes it logs the file
and the place, once, and again when the loop continues. It counts its own waits, not time: a process that was
suspended, or a host that slept, paused through no fault of the node.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from barnabas.host.disk import HostFile
from barnabas.host.loop import Loop

TICK_S = 1.0
BLOCKED_TICKS = 3
"""So long without a sign of life is worth a word."""
FRAMES_TOLD = 6
Log = Callable[..., None]


class LoopWatchdog:
    """Watches one loop from a thread of its own, from `start` to `stop`."""

    def __init__(self, loop: Loop, log: Log, tick_s: float = TICK_S) -> None:
        self._loop = loop
        self._log = log
        self._tick_s = tick_s
        self._watched = 0
        self._missed = 0
        self._answered = True
        self._ended = threading.Event()

    def start(self) -> None:
        """On the loop's thread."""
        self._watched = threading.get_ident()
        threading.Thread(target=self._run, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._tick_s):
            if self._answered:
                self._on_answer()
            else:
                self._missed += 1
                if self._missed == BLOCKED_TICKS:
                    self._log_stall()

    def _on_answer(self) -> None:
        if self._missed >= BLOCKED_TICKS:
            self._log("warning", "loop.resumed", stood_s=self._missed * self._tick_s)
        self._missed = 0
        self._answered = False
        self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._answered = True

    def _log_stall(self) -> None:
        frame = sys._current_frames().get(self._watched)
        self._log(
            "warning",
            "loop.stalled",
            for_s=self._missed * self._tick_s,
            file=_file_of(frame),
            where=_where(frame),
        )


def _file_of(frame: FrameType | None) -> str:
    """The file that the innermost call of a disk is about; empty where there is none."""
    while frame is not None:
        names: dict[str, Any] = frame.f_locals
        if isinstance(names.get("self"), HostFile):
            return str(names["self"].path)
        if frame.f_code.co_filename.endswith("host/disk.py") and "path" in names:
            return str(names["path"])
        frame = frame.f_back
    return ""


def _where(frame: FrameType | None) -> str:
    """The innermost calls, the innermost first."""
    reported = list[str]()
    while frame is not None and len(reported) < FRAMES_TOLD:
        reported.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(reported)
