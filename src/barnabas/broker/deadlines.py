"""Deadlines of parked requests: many, rarely reached, cheap to set and to forget.

Items due within the same few milliseconds share a bucket, and one wake-up is armed for the earliest
bucket, so a request that is answered in time costs two dictionary operations. An item may be
late by `granularity_ms`, never early.

Thousands may ring at once (the fetches of a thousand consumers that began together), and each may answer a
request: after `limits.SLICE_MS` of them the rest ring in the next turn of the loop.

Source: Kafka's ``DelayedOperationPurgatory``.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Protocol

from barnabas.limits import SLICE_MS
from barnabas.ports import Ports, Wakeup

RINGING = -2
"""The bucket of what is due and waits for its turn of the loop."""


class Expiring(Protocol):
    """A value with a deadline. `bucket` belongs to :class:`Deadlines`; -1 where nothing is set. Compared
    and hashed by identity."""

    bucket: int

    def on_deadline(self) -> None: ...


class Deadlines:
    """All deadlines of one broker's parked requests."""

    def __init__(self, ports: Ports, granularity_ms: float = 10.0) -> None:
        self._ports = ports
        self._granularity_ms = granularity_ms
        self._buckets: dict[int, dict[Expiring, None]] = {}
        self._order: list[int] = []
        self._due: deque[Expiring] = deque()
        """The values that ring, in order; what was removed since is passed over."""
        self._wakeup: Wakeup | None = None
        self._armed_for = 0

    def __len__(self) -> int:
        ringing = sum(item.bucket == RINGING for item in self._due)
        return ringing + sum(map(len, self._buckets.values()))

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
        order, is_ringing = self._order, bool(self._due)
        while order and order[0] <= current:
            for item in self._buckets.pop(heappop(order)):
                item.bucket = RINGING
                self._due.append(item)
        # What is left empty needs no wake-up of its own.
        while order and not self._buckets[order[0]]:
            del self._buckets[heappop(order)]
        if order:
            self._arm(order[0])
        if not is_ringing:
            self._ring()

    def _ring(self) -> None:
        """Ring what is due, as far as this turn allows."""
        now_ms, due = self._ports.clock.now_ms, self._due
        until_ms = now_ms() + SLICE_MS
        try:
            while due:
                item = due.popleft()
                if item.bucket == RINGING:
                    item.bucket = -1
                    item.on_deadline()
                    if now_ms() >= until_ms:
                        break
        finally:  # one that fails is no reason for the others not to ring
            if due:
                self._ports.wakeups.call_soon(self._ring)

    def close(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        self._buckets.clear()
        self._order.clear()
        self._due.clear()
