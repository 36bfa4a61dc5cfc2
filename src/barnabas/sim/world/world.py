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


Action = Callable[[], None]


class Killed(BaseException):
    """A process died in the middle of what it was doing: the rest of it never happens."""


class Event:
    """One thing to happen that may be called off. It stays in the heap then, and is passed over."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Time, chance, trace and totals of one simulated run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ms = 0.0
        self.totals: Counter[str] = Counter()
        self.faults: list[str] = []
        """The log events of nodes that no node should have to write."""
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.after_event: list[Action] = []
        self.after_touch: list[Callable[[object], None]] = []
        """Called with `touched` after each event that set it."""
        self.touched: object = None
        """The node on whose process the event ran; None for a client's process, or for no process."""
        self._heap: list[tuple[float, int, Action, Event | None]] = []
        """(instant, order of scheduling, what happens, who may call it off): no two begin alike, so that
        actions are never compared."""
        self._order = 0
        self._digest = blake2b(digest_size=16)

    def rng(self, concern: str) -> Rng:
        """A generator of its own for each concern; the same name gives the same stream."""
        return random.Random(f"{self.seed}/{concern}")

    def at(self, when_ms: float, action: Action) -> Event:
        """Schedule `action`; an instant that has passed means as soon as possible."""
        event = Event()
        self.schedule(when_ms, action, event)
        return event

    def schedule(self, when_ms: float, action: Action, event: Event) -> None:
        """Schedule as `at` does; the caller can cancel it by `event`."""
        self._order += 1
        now_ms = self.now_ms
        heappush(self._heap, (when_ms if when_ms > now_ms else now_ms, self._order, action, event))

    def after(self, delay_ms: float, action: Action) -> None:
        """Schedule `action`; it cannot be cancelled."""
        self._order += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._order, action, None))

    def step(self) -> bool:
        """Run the next event. False where nothing is left to happen."""
        heap = self._heap
        while heap:
            when_ms, _, action, event = heappop(heap)
            if event is None or not event.cancelled:
                self.now_ms = when_ms
                try:
                    action()
                except Killed:
                    pass
                self._tell(self.touched)
                return True
        return False

    def run(self, until_ms: float, done: Callable[[], bool] | None = None) -> bool:
        """Run to virtual instant `until_ms`, or until `done`. True where `done` came true."""
        heap, checks = self._heap, self.after_event
        while heap and heap[0][0] <= until_ms:
            self.now_ms, _, action, event = heappop(heap)
            if event is not None and event.cancelled:
                continue
            try:
                action()
            except Killed:
                pass
            touched = self.touched
            if touched is not None or checks:
                self._tell(touched)
            if done is not None and done():
                return True
        if done is not None and done():
            return True
        self.now_ms = max(self.now_ms, until_ms)
        return False

    def _tell(self, touched: object) -> None:
        """An event has happened."""
        if touched is not None:
            self.touched = None
            for look in self.after_touch:
                look(touched)
        for check in self.after_event:
            check()

    def note(self, line: str) -> None:
        """Add one line to the trace and to its digest."""
        text = f"{self.now_ms:11.3f} {line}"
        self.trace.append(text)
        self._digest.update(text.encode())
        self._digest.update(b"\n")

    def let_go(self) -> None:
        """Nothing happens any more."""
        self._heap.clear()
        self.after_event.clear()
        self.after_touch.clear()
        self.touched = None

    def trace_hash(self) -> str:
        return self._digest.hexdigest()
