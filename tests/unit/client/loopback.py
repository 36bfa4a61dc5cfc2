"""A world in memory for tests of both ends of a connection: deliver by hand, move time by hand."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from barnabas.limits import NodeBounds
from barnabas.ports import Background, Disk, Receiver, Rng
from barnabas.types import Buffer, Endpoint


class Stream:
    """One side of a stream; what is sent waits until `World.run` hands it over."""

    def __init__(self, world: World, peer: Endpoint) -> None:
        self.world = world
        self.peer = peer
        self.receiver: Receiver | None = None
        self.other: Stream | None = None
        self.reading = True
        self.ended = False
        self.blocked = False
        """The peer takes nothing: what is sent stays unsent."""
        self.inbox: deque[bytes | None] = deque()
        self.unsent: deque[bytes] = deque()

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self.unsent))

    def send(self, parts: Sequence[Buffer]) -> None:
        if self.ended:
            return
        self.unsent.append(b"".join(parts))
        self.world.pump()

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self.world.soon.append(lambda: self._end(None))

    abort = close

    def _end(self, error: OSError | None) -> None:
        if self.receiver is not None:
            receiver, self.receiver = self.receiver, None
            receiver.on_closed(error)
        if self.other is not None and not self.other.ended:
            self.other.inbox.append(None)
            self.world.pump()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        self.world.pump()


class Wake:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Clock, network and wake-ups; implements the parts of `ports.Ports` that they need."""

    def __init__(self, chunk: int = 1 << 20) -> None:
        self.bounds = NodeBounds()
        self.now = 0.0
        self.chunk = chunk
        self.listeners: dict[Endpoint, Callable[[], Receiver]] = {}
        self.streams: list[Stream] = []
        self.soon: deque[Callable[[], None]] = deque()
        self.later: list[tuple[float, int, Wake, Callable[[], None]]] = []
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        self._order = itertools.count()
        self._pumping = False
        self.clock = self.network = self.wakeups = self
        self.unsent_bytes = 0
        self.disk: Disk = None  # type: ignore[assignment]
        self.capacity = 1000
        self.read_ms = 0.0
        """What the node has worked at a callback when its receiver is called."""
        self.background: Background = None  # type: ignore[assignment]

    # clock, log, rng
    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now)

    def log(self, level: str, event: str, **fields: object) -> None:
        self.lines.append((level, event, fields))

    def rng(self, concern: str) -> Rng:
        return Random(concern)

    def halt(self, reason: str) -> None:
        raise AssertionError(reason)

    # wake-ups
    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def callback_began_ms(self) -> float:
        return self.now - self.read_ms

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> Wake:
        wake = Wake()
        heapq.heappush(self.later, (when_ms, next(self._order), wake, callback))
        return wake

    # network
    def listen(self, endpoint: Endpoint, accept: Callable[[], Receiver], gate: Any = None) -> Any:
        self.listeners[endpoint] = accept
        return None

    def addresses_of(self, host: str) -> list[str]:
        return [host]

    def machine_name(self) -> str:
        return "here"

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        def begin() -> None:
            accept = self.listeners.get(endpoint)
            if accept is None:
                receiver.on_closed(ConnectionRefusedError())
                return
            here, there = Stream(self, endpoint), Stream(self, Endpoint("client", 1))
            here.other, there.other = there, here
            here.receiver, there.receiver = receiver, accept()
            self.streams += [here, there]
            there.receiver.on_connected(there)
            here.receiver.on_connected(here)

        self.soon.append(begin)

    def pump(self) -> None:
        for stream in self.streams:
            if stream.other is not None and not stream.blocked:
                while stream.unsent:
                    stream.other.inbox.append(stream.unsent.popleft())

    def run(self, until_ms: float | None = None) -> None:
        """Deliver all that can be delivered now, then on to `until_ms`, wake-up by wake-up."""
        while True:
            self._settle()
            if until_ms is None:
                return
            while self.later and self.later[0][2].cancelled:
                heapq.heappop(self.later)
            if not self.later or self.later[0][0] > until_ms:
                self.now = max(self.now, until_ms)
                return
            when, _, _, callback = heapq.heappop(self.later)
            self.now = max(self.now, when)
            callback()

    def _settle(self) -> None:
        busy = True
        while busy:
            busy = False
            while self.soon:
                self.soon.popleft()()
                busy = True
            self.pump()
            for stream in list(self.streams):
                while stream.inbox and stream.reading:
                    busy = True
                    self._deliver(stream)

    def _deliver(self, stream: Stream) -> None:
        data = stream.inbox.popleft()
        if stream.receiver is None:
            return
        if data is None:
            stream.ended = True
            receiver, stream.receiver = stream.receiver, None
            receiver.on_closed(None)
            return
        buffer = stream.receiver.get_buffer()
        taken = min(len(buffer), len(data), self.chunk)
        buffer[:taken] = data[:taken]
        if taken < len(data):
            stream.inbox.appendleft(data[taken:])
        stream.receiver.buffer_updated(taken)
