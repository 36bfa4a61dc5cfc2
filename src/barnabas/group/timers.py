"""Deadlines as data: one per key, taken in the order of time. Every heartbeat moves its member's
deadline to a later time, so that has to be cheap.

It leaves the heap unchanged: when the old entry is due, `take_due` replaces it by one for the new
deadline. A heartbeat costs one assignment.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

K = TypeVar("K")


class Timers(Generic[K]):
    """The pending deadlines in milliseconds of the monotonic clock, each with a payload."""

    __slots__ = ("_count", "_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, Any]] = {}
        self._queued: dict[K, float] = {}
        """The deadline of each key's valid entry in the heap, not later than its deadline in `_due`. The
        key's other entries are stale."""
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, key: K, deadline_ms: float, payload: Any = None) -> None:
        """Set the deadline of `key`, and replace its earlier one."""
        self._due[key] = (deadline_ms, payload)
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        self._due.pop(key, None)

    def pending(self, key: K) -> float | None:
        """The deadline of `key`; None if it has none."""
        entry = self._due.get(key)
        return None if entry is None else entry[0]

    def deadline_ms(self) -> float:
        """The time of the next call of `take_due`: the first deadline, or earlier; ``inf`` means
        never."""
        heap = self._heap
        while heap and (self._queued.get(heap[0][2]) != heap[0][0] or heap[0][2] not in self._due):
            self._drop()
        return heap[0][0] if heap else math.inf

    def take_due(self, now_ms: float) -> tuple[K, Any] | None:
        """Remove one deadline that is due, and return its key and payload; None if none is due."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms = heap[0][0]
            key = self._drop()
            entry = None if key is None else self._due.get(key)
            if key is None or entry is None:
                continue
            if entry[0] > queued_ms:
                self._push(key, entry[0])  # it has moved: another key may be due first
                continue
            del self._due[key]
            return key, entry[1]
        return None

    def _push(self, key: K, deadline_ms: float) -> None:
        self._count += 1
        self._queued[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._count, key))

    def _drop(self) -> K | None:
        """Remove the first entry of the heap. Returns its key; None if the entry was stale."""
        deadline_ms, _, key = heappop(self._heap)
        if self._queued.get(key) != deadline_ms:
            return None
        del self._queued[key]
        return key
