"""Virtual time and chance: one heap of events, and generators split from one seed.

The world runs one event at a time, in order of (instant, order of scheduling): nothing here
depends on hashing, addresses or the real clock, so one seed gives one run. The trace is a running
digest of everything that happened plus the last lines as text.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush

from barnabas.ports import Rng

START_WALL_MS = 1_750_000_000_000
"""The date at virtual instant 0."""
TRACE_LINES = 4000


class Event:
    """One thing to happen. Cancelled events stay in the heap and are passed over."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None] | None) -> None:
        self.action = action

    def cancel(self) -> None:
        self.action = None


class World:
    """Time, chance, trace and totals of one simulated run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ms = 0.0
        self.totals: Counter[str] = Counter()
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.after_event: list[Callable[[], None]] = []
        self.touched: object = None
        """Whose process the last event ran on; checkers look there."""
        self._heap: list[tuple[float, int, Event]] = []
        """(instant, order of scheduling, event): no two are equal, so events are never compared."""
        self._order = 0
        self._digest = blake2b(digest_size=16)

    def rng(self, concern: str) -> Rng:
        """A generator of its own for each concern; the same name gives the same stream."""
        return random.Random(f"{self.seed}/{concern}")

    def at(self, when_ms: float, action: Callable[[], None]) -> Event:
        """Schedule `action`; an instant that has passed means as soon as possible."""
        self._order += 1
        event = Event(action)
        now_ms = self.now_ms
        heappush(self._heap, (when_ms if when_ms > now_ms else now_ms, self._order, event))
        return event

    def again(self, event: Event, when_ms: float, action: Callable[[], None]) -> None:
        """Let an event that has just run happen once more; who holds it can still cancel it."""
        self._order += 1
        event.action = action
        heappush(self._heap, (max(when_ms, self.now_ms), self._order, event))

    def after(self, delay_ms: float, action: Callable[[], None]) -> Event:
        self._order += 1
        event = Event(action)
        heappush(self._heap, (self.now_ms + delay_ms, self._order, event))
        return event

    def step(self) -> bool:
        """Run the next event. False where nothing is left to happen."""
        heap = self._heap
        while heap:
            when_ms, _, event = heappop(heap)
            action = event.action
            if action is None:
                continue
            self.now_ms = when_ms
            event.action = None
            action()
            for check in self.after_event:
                check()
            return True
        return False

    def run(self, until_ms: float, done: Callable[[], bool] | None = None) -> bool:
        """Run to virtual instant `until_ms`, or until `done`. True where `done` came true."""
        heap, checks = self._heap, self.after_event
        while heap and heap[0][0] <= until_ms:
            self.now_ms, _, event = heappop(heap)
            action = event.action
            if action is None:
                continue
            event.action = None
            action()
            for check in checks:
                check()
            if done is not None and done():
                return True
        if done is not None and done():
            return True
        self.now_ms = max(self.now_ms, until_ms)
        return False

    def note(self, line: str) -> None:
        """Add one line to the trace and to its digest."""
        text = f"{self.now_ms:11.3f} {line}"
        self.trace.append(text)
        self._digest.update(text.encode())
        self._digest.update(b"\n")

    def trace_hash(self) -> str:
        return self._digest.hexdigest()
