"""Deadlines of parked requests: many, rarely reached, cheap to set and to forget.

Items due within the same few milliseconds share a bucket, and one wake-up is armed for the earliest
bucket, so a request that is answered in time costs two dictionary operations. An item may be
late by `granularity_ms`, never early.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from barnabas.ports import Ports, Wakeup


class Expiring(Protocol):
    """What waits. `bucket` belongs to :class:`Deadlines`; -1 where nothing is set."""

    bucket: int

    def on_deadline(self) -> None: ...


class Deadlines:
    """All deadlines of one broker's parked requests."""

    def __init__(self, ports: Ports, granularity_ms: float = 10.0) -> None:
        self._ports = ports
        self._granularity_ms = granularity_ms
        self._buckets: dict[int, dict[Expiring, None]] = {}
        self._order: list[int] = []
        self._wakeup: Wakeup | None = None
        self._armed_for = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, item: Expiring, when_ms: float) -> None:
        bucket = int(when_ms // self._granularity_ms) + 1
        item.bucket = bucket
        items = self._buckets.get(bucket)
        if items is None:
            self._buckets[bucket] = {item: None}
            heappush(self._order, bucket)
            if self._wakeup is None or bucket < self._armed_for:
                self._arm(bucket)
        else:
            items[item] = None

    def remove(self, item: Expiring) -> None:
        items = self._buckets.get(item.bucket)
        item.bucket = -1
        if items is not None:
            items.pop(item, None)

    def _arm(self, bucket: int) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._armed_for = bucket
        self._wakeup = self._ports.wakeups.call_at(bucket * self._granularity_ms, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup = None
        current = int(self._ports.clock.now_ms() // self._granularity_ms)
        order = self._order
        while order and order[0] <= current:
            for item in self._buckets.pop(heappop(order)):
                item.bucket = -1
                item.on_deadline()
        # What is left empty needs no wake-up of its own.
        while order and not self._buckets[order[0]]:
            del self._buckets[heappop(order)]
        if order and self._wakeup is None:
            self._arm(order[0])

    def close(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        self._buckets.clear()
        self._order.clear()
