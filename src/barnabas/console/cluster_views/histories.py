"""Figures over time, for sparklines and rates. Samples are taken while a page that shows them is
open.

A counter only grows (an end offset, bytes on a disk); its rate is its growth in a second between
two samples.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

SAMPLES_MAX = 60
SERIES_MAX = 20_000
APART_S = 1.0
"""The shortest time between two samples."""
STALE_S = 120.0
"""The time without samples after which a series begins again."""


class Histories:
    """The last samples of many counters, by name."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._series: dict[str, deque[tuple[float, float]]] = {}
        self._lock = threading.Lock()

    def sample(self, values: Mapping[str, float]) -> None:
        """Sample the present values of counters. A counter that was sampled a moment ago is
        skipped; one that fell begins again."""
        self._add(values, may_fall=False)

    def gauge(self, values: Mapping[str, float]) -> None:
        """Sample the present values of gauges, which rise and fall."""
        self._add(values, may_fall=True)

    def _add(self, values: Mapping[str, float], *, may_fall: bool) -> None:
        now = self._now_s()
        with self._lock:
            for name, value in values.items():
                series = self._series.get(name)
                begins = series is None or now - series[-1][0] > STALE_S
                if series is None or begins or (value < series[-1][1] and not may_fall):
                    if series is None and len(self._series) >= SERIES_MAX:
                        self._series.pop(next(iter(self._series)))
                    self._series[name] = deque([(now, value)], maxlen=SAMPLES_MAX)
                elif now - series[-1][0] >= APART_S:
                    series.append((now, value))

    def rates(self, name: str) -> list[float]:
        """The rates per second between the samples, the oldest first."""
        with self._lock:
            samples = list(self._series.get(name, ()))
        return [
            (after - before) / (later - earlier)
            for (earlier, before), (later, after) in itertools.pairwise(samples)
        ]

    def values(self, name: str) -> list[float]:
        """The samples themselves, the oldest first."""
        with self._lock:
            return [value for _, value in self._series.get(name, ())]
