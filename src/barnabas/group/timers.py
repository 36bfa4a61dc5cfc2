"""Deadlines as data: one per key, cheap to move later, taken in the order in which they fall due.

A heartbeat moves its member's deadline; the heap is then left alone and put right when the old
entry comes up, so that a heartbeat costs one assignment.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

K = TypeVar("K")


class Timers(Generic[K]):
    """Pending deadlines in milliseconds of the monotonic clock, each with a payload."""

    __slots__ = ("_count", "_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, Any]] = {}
        self._queued: dict[K, float] = {}
        """The earliest entry of a key in the heap."""
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, key: K, deadline_ms: float, payload: Any = None) -> None:
        """Set the deadline of `key` in place of the one it had."""
        self._due[key] = (deadline_ms, payload)
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        self._due.pop(key, None)

    def pending(self, key: K) -> float | None:
        """The deadline of `key`."""
        entry = self._due.get(key)
        return None if entry is None else entry[0]

    def deadline_ms(self) -> float:
        """When to look again: never later than the first deadline, perhaps earlier."""
        heap = self._heap
        while heap and (self._queued.get(heap[0][2]) != heap[0][0] or heap[0][2] not in self._due):
            self._drop()
        return heap[0][0] if heap else math.inf

    def take_due(self, now_ms: float) -> tuple[K, Any] | None:
        """One key whose deadline has come, with its payload; it is pending no longer."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            looked_at_ms = heap[0][0]
            key = self._drop()
            entry = None if key is None else self._due.get(key)
            if key is None or entry is None:
                continue
            if entry[0] > looked_at_ms:
                self._push(key, entry[0])  # it was moved; others may come before it now
                continue
            del self._due[key]
            return key, entry[1]
        return None

    def _push(self, key: K, deadline_ms: float) -> None:
        self._count += 1
        self._queued[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._count, key))

    def _drop(self) -> K | None:
        """Take the first entry of the heap; its key where it was that key's earliest."""
        deadline_ms, _, key = heappop(self._heap)
        if self._queued.get(key) != deadline_ms:
            return None
        del self._queued[key]
        return key
