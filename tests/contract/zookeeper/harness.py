"""One way to drive an ensemble and its sessions, simulated or real, for the contract's tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kazoo.client import KazooClient

from barnabas.cli.local.zookeeper_servers import APACHE, ZooKeeperServer, ZooKeeperServers
from barnabas.host.loop import Loop
from barnabas.host.tls_contexts import HostSecrets
from barnabas.host.zookeeper.sessions import HostZooKeeper, KazooSession
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import World
from barnabas.sim.world.zookeeper_client import SimZooKeeperSession
from barnabas.sim.zookeeper.ensemble import Ensemble
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.operations import Request
from barnabas.zookeeper.session import (
    SessionSettings,
    SessionState,
    WatchEvent,
    ZooKeeperSession,
)

T = TypeVar("T")
TIMEOUT_MS = 4_000
"""What sessions ask for, where the test does not say."""


class Client:
    """A session with everything that it heard, in order, and a way to wait for an answer."""

    def __init__(self, ensemble: AnyEnsemble) -> None:
        self.ensemble = ensemble
        self.session: ZooKeeperSession
        self.heard: list[object] = []
        """States, events, and pairs of (request, answer)."""

    def on_session_state(self, state: SessionState) -> None:
        self.heard.append(state)

    def on_watch(self, event: WatchEvent) -> None:
        self.heard.append(event)

    @property
    def states(self) -> list[SessionState]:
        return [one for one in self.heard if isinstance(one, SessionState)]

    @property
    def events(self) -> list[WatchEvent]:
        return [one for one in self.heard if isinstance(one, WatchEvent)]

    def answers(self) -> list[tuple[Request[Any], Any]]:
        return [one for one in self.heard if isinstance(one, tuple) and not hasattr(one, "kind")]

    def send(self, request: Request[Any]) -> None:
        self.session.submit(request, lambda answer: self.heard.append((request, answer)))

    def answer(self, request: Request[T]) -> T | ZooKeeperError:
        """The result or the error."""
        got: list[T | ZooKeeperError] = []
        self.session.submit(request, got.append)
        self.ensemble.wait(lambda: bool(got), f"an answer to {request}")
        return got[0]

    def ask(self, request: Request[T]) -> T:
        """The result."""
        answer = self.answer(request)
        if isinstance(answer, ZooKeeperError):
            raise answer
        return answer

    def wait_state(self, state: SessionState) -> None:
        self.ensemble.wait(lambda: self.session.state is state, f"{state} of {self.session}")

    def wait_events(self, count: int) -> list[WatchEvent]:
        self.ensemble.wait(lambda: len(self.events) >= count, f"{count} events")
        return self.events

    def close(self) -> None:
        self.session.close()
        self.wait_state(SessionState.CLOSED)


class AnyEnsemble(Protocol):
    """Servers, clients, and what can happen to them."""

    def open(self, chroot: str = "", timeout_ms: int = TIMEOUT_MS) -> Client: ...
    def wait(self, done: Callable[[], bool], what: str) -> None: ...
    def pass_time(self, ms: float) -> None: ...
    def drop_connection(self, client: Client) -> None: ...
    def expire(self, client: Client) -> None: ...
    def stop_servers(self) -> None: ...
    def start_servers(self) -> None: ...
    def kill_leader(self) -> None: ...
    def close(self) -> None: ...


class SimulatedEnsemble:
    """The twin."""

    def __init__(self, servers: int, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = SimNetwork(self.world)
        self.machines: dict[str, SimMachine] = {}
        hosts = [f"zookeeper{number}" for number in range(1, servers + 1)]
        self.ensemble = Ensemble(
            self.world, self.network, hosts, machines=self.machines, timeout_ms=(1_000, 40_000)
        )
        self._clients = 0

    def open(self, chroot: str = "", timeout_ms: int = TIMEOUT_MS) -> Client:
        self._clients += 1
        host = f"client{self._clients}"
        disk = SimDisk(self.world.rng(host))
        machine = self.machines[host] = SimMachine(self.world, self.network, host, disk)
        machine.machines = self.machines
        client = Client(self)
        settings = SessionSettings(self.ensemble.connect + chroot, timeout_ms)
        client.session = machine.start_process().zookeeper.open(settings, client)
        client.wait_state(SessionState.CONNECTED)
        return client

    def wait(self, done: Callable[[], bool], what: str) -> None:
        assert self.world.run(self.world.now_ms + 60_000, done), f"waited for {what}"

    def pass_time(self, ms: float) -> None:
        self.world.run(self.world.now_ms + ms)

    def drop_connection(self, client: Client) -> None:
        session = client.session
        assert isinstance(session, SimZooKeeperSession) and session.link is not None
        session.link.abort()

    def expire(self, client: Client) -> None:
        self.ensemble.expire(client.session.id)

    def stop_servers(self) -> None:
        for server in self.ensemble.servers:
            server.kill()

    def start_servers(self) -> None:
        for server in self.ensemble.servers:
            if server.process is None:
                server.start()

    def kill_leader(self) -> None:
        assert self.ensemble.leader is not None
        self.ensemble.leader.kill()

    def close(self) -> None:
        self.world.let_go()


class RealEnsemble:
    """Processes, Apache ZooKeeper's or ours, through kazoo, on the host's loop."""

    def __init__(self, servers: ZooKeeperServers) -> None:
        self.servers = servers
        self.loop = Loop()
        self.zookeeper = HostZooKeeper(self.loop, _ignore, lambda: HostSecrets(_ignore))
        self._sessions: list[KazooSession] = []
        self._killed: list[ZooKeeperServer] = []

    def open(self, chroot: str = "", timeout_ms: int = TIMEOUT_MS) -> Client:
        client = Client(self)
        settings = SessionSettings(self.servers.connect + chroot, timeout_ms)
        session = self.zookeeper.open(settings, client)
        client.session = session
        self._sessions.append(session)
        client.wait_state(SessionState.CONNECTED)
        return client

    def wait(self, done: Callable[[], bool], what: str) -> None:
        assert self._run(done, 30.0), f"waited for {what}"

    def pass_time(self, ms: float) -> None:
        self._run(lambda: False, ms / 1000)

    def _run(self, done: Callable[[], bool], timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s

        def look() -> None:
            if done() or time.monotonic() >= until:
                self.loop.stop()
            else:
                self.loop.call_later(0.002, look)

        self.loop.call_soon(look)
        self.loop.run_forever()
        return done()

    def drop_connection(self, client: Client) -> None:
        assert isinstance(client.session, KazooSession)
        with suppress(OSError):
            client.session._client._connection._socket.shutdown(2)

    def expire(self, client: Client) -> None:
        """Another connection takes the session over and ends it."""
        assert isinstance(client.session, KazooSession)
        own = client.session._client
        other = KazooClient(
            hosts=self.servers.connect, client_id=(own._session_id, own._session_passwd), timeout=4
        )
        other.start()
        other.stop()
        other.close()

    def stop_servers(self) -> None:
        for server in self.servers.servers:
            server.kill()

    def start_servers(self) -> None:
        self.servers.start()

    def kill_leader(self) -> None:
        leader = self.servers.leader()
        assert leader is not None
        leader.kill()

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        self._run(lambda: all(session.state.is_final for session in self._sessions), 20.0)
        self.loop.close()


def _ignore(*_: object, **__: object) -> None:
    pass


def start_real(directory: Path, servers: int, kind: str = APACHE) -> ZooKeeperServers:
    """Servers whose sessions may be short."""
    bounds_ms = (1_000, 40_000)
    started = ZooKeeperServers(
        directory, servers, tick_ms=200, session_timeout_ms=bounds_ms, kind=kind
    )
    started.start()
    return started
