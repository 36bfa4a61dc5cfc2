"""The event loop, and how long its turns take.

A turn is what runs between two waits for something to happen. While one lasts, nobody else is
served; so the longest one is a metric, and a turn above `limits.TURN_MS_MAX` is counted.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from barnabas import limits

_SLOW_S = limits.TURN_MS_MAX / 1000


class TurnTimes:
    """Durations of turns since the start, or since `reset`."""

    __slots__ = ("longest_s", "slow", "turns")

    def __init__(self) -> None:
        self.turns = 0
        self.slow = 0
        self.longest_s = 0.0

    def reset(self) -> None:
        self.turns = self.slow = 0
        self.longest_s = 0.0

    def describe(self) -> dict[str, float]:
        return {
            "turns": self.turns,
            "slow_turns": self.slow,
            "longest_turn_ms": round(self.longest_s * 1000, 3),
        }


class MeasuringSelector(selectors.DefaultSelector):
    """The platform's selector; the time between two of its waits is a turn."""

    def __init__(self, times: TurnTimes) -> None:
        super().__init__()
        self._times = times
        self._woke = perf_counter()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        times = self._times
        took = perf_counter() - self._woke
        times.turns += 1
        if took > times.longest_s:
            times.longest_s = took
        if took > _SLOW_S:
            times.slow += 1
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        self._woke = perf_counter()
        return ready


class MeasuredLoop(asyncio.SelectorEventLoop):
    """asyncio's loop; `times` has how long its turns take."""

    def __init__(self) -> None:
        self.times = TurnTimes()
        super().__init__(MeasuringSelector(self.times))


def new_loop() -> MeasuredLoop:
    """A loop that measures its turns."""
    return MeasuredLoop()


def explain(context: Mapping[str, Any]) -> BaseException:
    """What a loop's exception handler was called about."""
    error = context.get("exception")
    return error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))
