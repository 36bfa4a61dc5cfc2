"""Who waits for a partition's watermarks.

:class:`OffsetWaiters` are settled exactly once each: when the high watermark reaches their offset, or
when the leadership that they wait for ends. :class:`LowWatermarkWaiters` are asked again whenever the
low watermark may have moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from barnabas.ports import call_all
from barnabas.wire.errors import ErrorCode


class Waiter(Protocol):
    """Something that waits until the high watermark reaches an offset."""

    def settle(self, slot: int, code: ErrorCode) -> None:
        """NONE: reached. Any other code: it will not be, from here."""


class OffsetWaiters:
    """(offset, waiter, its slot), by offset: appends come in that order."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Waiter, int]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, waiter: Waiter, slot: int) -> None:
        waiting = self._waiting
        if not waiting or waiting[-1][0] <= offset:
            waiting.append((offset, waiter, slot))
        else:  # the repetition of an earlier batch
            at = next(i for i, entry in enumerate(waiting) if entry[0] > offset)
            waiting.insert(at, (offset, waiter, slot))

    def has_reached(self, offset: int) -> bool:
        """Whether somebody waits for `offset` or less."""
        return bool(self._waiting) and self._waiting[0][0] <= offset

    def settle_to(self, offset: int, code: ErrorCode) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            _, waiter, slot = waiting.popleft()
            waiter.settle(slot, code)

    def settle_all(self, code: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        call_all(partial(waiter.settle, slot, code) for _, waiter, slot in waiting)


class LowWatermarkWaiters:
    """Checks that return True once they wait no more."""

    __slots__ = ("_checks",)

    def __init__(self) -> None:
        self._checks: list[Callable[[], bool]] = []

    def __bool__(self) -> bool:
        return bool(self._checks)

    def add(self, check: Callable[[], bool]) -> None:
        self._checks.append(check)

    def look(self) -> None:
        if self._checks:
            checks, self._checks = self._checks, []
            self._checks += [check for check in checks if not check()]
