"""One line on standard error that says how far long work is, where a person looks on.

It is shown on a terminal only, and not where records are printed on the same one. It is written over
itself at most ten times a second, and removed at the end.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

INTERVAL_S = 0.1
BEGIN_S = 0.5
"""Work that is done earlier has no line."""


def has_onlooker(as_json: bool = False) -> bool:
    """Whether a person looks on: not where the output is for a program."""
    return sys.stderr.isatty() and not as_json


class ProgressLine:
    """How many of `total` things (`unit`, in the plural) are done; `total` None: it is not known."""

    def __init__(
        self, unit: str, total: int | None = None, *, is_shown: bool | None = None
    ) -> None:
        self._unit = unit
        self._total = total
        self._is_shown = has_onlooker() if is_shown is None else is_shown
        self._began_s = time.monotonic()
        self._next_s = self._began_s + BEGIN_S
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def update(self, done: int, total: int | None = None) -> None:
        """Show it, if the last time was long enough ago; with another `total` where that has changed."""
        self._total = self._total if total is None else total
        if not self._is_shown or (now_s := time.monotonic()) < self._next_s:
            return
        self._next_s = now_s + INTERVAL_S
        line = progress_line(done, self._total, now_s - self._began_s, self._unit)
        sys.stderr.write(f"\r{line.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(line)

    def remove(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
            self._width = 0


def progress_line(done: int, total: int | None, passed_s: float, unit: str) -> str:
    """``1,200 of 4,000 records, 30%, 600/s, 5 s left``."""
    rate = done / passed_s if passed_s > 0 else 0.0
    speed = f"{rate:,.0f}/s"
    if total is None:
        return f"{done:,} {unit}, {speed}"
    if not total:
        return f"{done:,} of {total:,} {unit}"
    left = f", {max(total - done, 0) / rate:,.0f} s left" if rate else ""
    return f"{done:,} of {total:,} {unit}, {min(done / total, 1):.0%}, {speed}{left}"
