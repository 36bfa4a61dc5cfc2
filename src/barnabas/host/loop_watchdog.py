"""Logs where the node's thread is if its loop stalls.

Writes to the page cache and most file system calls run on that thread, since they normally return at once. If
a disk hangs (a lost network volume, a frozen file system) they block the thread, which then cannot log it.
This thread can: it schedules a callback on the loop once a second. If the callback does not run, it logs the
file and the place in the code once, and later that the loop continued. It counts its own waits instead of
elapsed time, since a suspended process or host is no stall.
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
STALLED_TICKS = 3
"""Ticks without an answer of the loop after which a stall is logged."""
FRAMES_LOGGED = 6
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
        """Start watching; called on the loop's thread."""
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
                if self._missed == STALLED_TICKS:
                    self._log_stall()

    def _on_answer(self) -> None:
        if self._missed >= STALLED_TICKS:
            self._log("warning", "loop.resumed", stalled_s=self._missed * self._tick_s)
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
    """The path of the innermost disk call; empty if there is none."""
    while frame is not None:
        names: dict[str, Any] = frame.f_locals
        if isinstance(names.get("self"), HostFile):
            return str(names["self"].path)
        if frame.f_code.co_filename.endswith("host/disk.py") and "path" in names:
            return str(names["path"])
        frame = frame.f_back
    return ""


def _where(frame: FrameType | None) -> str:
    """The innermost calls as text, innermost first."""
    calls = list[str]()
    while frame is not None and len(calls) < FRAMES_LOGGED:
        calls.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(calls)
