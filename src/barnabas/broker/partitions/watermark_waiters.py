"""Requests that wait for a partition's watermarks.

:class:`OffsetWaiters` are settled exactly once each: when the high watermark reaches their offset, or
when the leadership that they wait for ends. :class:`LowWatermarkWaiters` are asked again whenever the
low watermark may have moved.

Invariant: each waiter is notified even if others raise. Their exceptions go to `on_fault`, not to the caller
that moved the watermark: its work remains valid.

Source: Kafka's ``DelayedOperationPurgatory``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from barnabas.wire.errors import ErrorCode

OnFault = Callable[[Exception], None]


def call_each(callbacks: Iterable[Callable[[], object]], on_fault: OnFault) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception as fault:  # noqa: BLE001 - one listener's fault must not stop the others
            on_fault(fault)


class Waiter(Protocol):
    """A request that waits until the high watermark reaches an offset."""

    def complete_partition(self, slot: int, code: ErrorCode) -> None:
        """NONE: the offset is reached. Any other code: it will not be reached on this leader."""


class OffsetWaiters:
    """Offset, waiter and the waiter's slot, sorted by offset: appends come in that order."""

    __slots__ = ("_on_fault", "_waiting")

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
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
        """Whether a waiter waits for `offset` or less."""
        return bool(self._waiting) and self._waiting[0][0] <= offset

    def complete_to(self, offset: int, code: ErrorCode) -> None:
        call_each(self._take_to(offset, code), self._on_fault)

    def _take_to(self, offset: int, code: ErrorCode) -> Iterator[Callable[[], None]]:
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            _, waiter, slot = waiting.popleft()
            yield partial(waiter.complete_partition, slot, code)

    def complete_all(self, code: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        callbacks = (partial(waiter.complete_partition, slot, code) for _, waiter, slot in waiting)
        call_each(callbacks, self._on_fault)


class LowWatermarkWaiters:
    """Checks that return True when they do not wait any more."""

    __slots__ = ("_checks", "_on_fault")

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._checks: list[Callable[[], bool]] = []

    def add(self, check: Callable[[], bool]) -> None:
        self._checks.append(check)

    def check_and_complete(self) -> None:
        if self._checks:
            checks, self._checks = self._checks, []
            call_each((partial(self._ask, check) for check in checks), self._on_fault)

    def _ask(self, check: Callable[[], bool]) -> None:
        if not check():
            self._checks.append(check)
