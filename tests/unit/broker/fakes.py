"""Ports of a simulated process, and channels that a test answers by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.client.network.connection import ChannelError
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
from barnabas.types import Endpoint
from barnabas.wire.schema import Message


def process(seed: int = 1) -> SimProcess:
    """A process alone in its world."""
    world = World(seed)
    disk = SimDisk(world.rng("disk"))
    return SimMachine(world, SimNetwork(world), "n1", disk).start_process()


class Ending:
    """The owner of a process that waits for its end."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def on_halt(self, process: SimProcess, reason: str) -> None:
        self.reasons.append(reason)


def advance(ports: SimProcess, ms: float) -> None:
    """Let `ms` pass, also where nothing happens in them."""
    marker: list[bool] = []
    ports.world.after(ms, lambda: marker.append(True))
    while not marker:
        ports.world.step()


class Slow:
    """The ports of `process` on a machine on which everything takes long: by its clock each look at it is
    `step_ms` later."""

    def __init__(self, process: SimProcess, step_ms: float = 1.0) -> None:
        self._process = process
        self._step_ms = step_ms
        self._passed_ms = 0.0
        self.clock = self

    def now_ms(self) -> float:
        self._passed_ms += self._step_ms
        return self._process.clock.now_ms() + self._passed_ms

    def wall_ms(self) -> int:
        return self._process.clock.wall_ms()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)


class Sent(NamedTuple):
    """One request that left."""

    target: Endpoint
    request: Any
    purpose: str
    answer: Callable[[Any], None]


class Hand:
    """Channels whose other side is the test."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.disconnected: list[tuple[Endpoint, str | None]] = []

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[Any], None],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None:
        self.sent.append(Sent(target, request, purpose, on_done))

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None:
        self.disconnected.append((target, purpose))

    def take(self) -> Sent:
        """The oldest request that was not taken yet."""
        return self.sent.pop(0)

    def refuse(self) -> None:
        """The oldest one finds no listener."""
        self.take().answer(ChannelError("refused", "no listener"))
