"""The two worlds under one name: what a contract test needs of each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.ports import Connection, Listener, Ports, Receiver
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import World as SimulatedWorld
from barnabas.types import Buffer, Endpoint
from tests.unit.host.running import run_until

EVENTS_MAX = 100_000


class World(Protocol):
    """One process's ports, and time that passes until something holds."""

    @property
    def ports(self) -> Ports: ...
    @property
    def host(self) -> str: ...
    def until(self, condition: Callable[[], bool]) -> None: ...
    def be_busy(self, for_ms: float) -> None:
        """What becomes due meanwhile is done afterwards."""

    def close(self) -> None: ...


class RealWorld:
    """This machine."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self._loop = new_loop()
        self.ports: HostPorts = HostPorts(self._loop, StructuredLog(level="error"))

    def until(self, condition: Callable[[], bool]) -> None:
        run_until(self._loop, condition)

    def be_busy(self, for_ms: float) -> None:
        time.sleep(for_ms / 1000)

    def close(self) -> None:
        self.ports.network.abort_all()
        self.ports.stop()
        self._loop.stop()
        self._loop.run_forever()
        self._loop.close()


class SimWorld:
    """A simulated machine."""

    host = "node-1"

    def __init__(self) -> None:
        self._world = SimulatedWorld(1)
        network = SimNetwork(self._world)
        disk = SimDisk(random.Random(1))
        self._process = SimMachine(self._world, network, self.host, disk).start_process()
        self.ports: Ports = self._process

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(EVENTS_MAX):
            if condition():
                return
            assert self._world.step(), "nothing is left to happen"
        raise AssertionError("it did not happen")

    def be_busy(self, for_ms: float) -> None:
        self._process.pause(for_ms)

    def close(self) -> None:
        """Nothing outlives a simulated world."""


@pytest.fixture(params=[RealWorld, SimWorld], ids=["host", "sim"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world: World = request.param()
    yield world
    world.close()


class Recorder:
    """A receiver that keeps what it receives."""

    def __init__(self, room: int = 64, on_bytes: Callable[[Recorder], None] | None = None) -> None:
        self.connection: Connection | None = None
        self.received = bytearray()
        self.ends: list[OSError | None] = []
        self._buffer = bytearray(room)
        self._on_bytes = on_bytes

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    @property
    def open_connection(self) -> Connection:
        assert self.connection is not None
        return self.connection

    def on_connected(self, connection: Connection) -> None:
        assert not self.ends
        self.connection = connection

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, size: int) -> None:
        assert not self.ends, "bytes came after the end"
        self.received += self._buffer[:size]
        if self._on_bytes is not None:
            self._on_bytes(self)

    def on_closed(self, error: OSError | None) -> None:
        self.ends.append(error)

    def send(self, *parts: Buffer) -> None:
        self.open_connection.send(parts)


def listen(world: World, accept: Callable[[], Receiver]) -> Listener:
    return world.ports.network.listen(Endpoint(world.host, 0), accept)


def pair(world: World, room: int = 64) -> tuple[Recorder, Recorder]:
    """A client and the server's side of its connection."""
    server, client = Recorder(room), Recorder(room)
    listener = listen(world, lambda: server)
    world.ports.network.connect(listener.endpoint, client)
    world.until(lambda: server.is_connected and client.is_connected)
    return client, server
