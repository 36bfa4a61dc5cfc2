"""The agreement of the twin's servers: the leader, the one order of transactions, and the sessions.

An oracle. Invariants: a transaction is committed only while a leader lives whom a majority reaches, and is
never lost or reordered; every server applies the same ones in the same order, each in its own time; a session
is ended only by the leader, after it was silent for its time-out, and a new leader gives every session its
whole time again. A server that reaches no leader serves no client: it drops its clients' connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import START_WALL_MS, World
from barnabas.sim.zookeeper.server import EnsembleServer
from barnabas.sim.zookeeper.transactions import CommittedTransaction, apply
from barnabas.zookeeper.errors import SessionExpired, SessionMoved, ZooKeeperError
from barnabas.zookeeper.session import PORT
from barnabas.zookeeper.znode_tree import ZnodeTree

if TYPE_CHECKING:
    from barnabas.sim.zookeeper.server import SessionConnection

TICK_MS = 100.0
"""How often the oracle looks at servers and sessions."""
SILENT_MS_MAX = 800.0
"""A server that has done nothing for longer is down, to the others (``syncLimit``)."""
ELECTION_MS = (50.0, 500.0)
TIMEOUT_MS = (4_000, 40_000)
"""The time-outs that a session may have (``minSessionTimeout``, ``maxSessionTimeout``)."""
SESSION_ID_FIRST = 0x1000_0000_0000_0000


class SessionEntry:
    """A session as the leader counts it."""

    __slots__ = ("heard_ms", "connection", "password", "timeout_ms")

    def __init__(
        self, password: int, timeout_ms: int, connection: SessionConnection, now: float
    ) -> None:
        self.password = password
        self.timeout_ms = timeout_ms
        self.connection: SessionConnection = connection
        self.heard_ms = now


class Ensemble:
    """The twin of a ZooKeeper ensemble on machines of its own."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        hosts: Sequence[str] = ("zookeeper1", "zookeeper2", "zookeeper3"),
        *,
        machines: dict[str, SimMachine] | None = None,
        timeout_ms: tuple[int, int] = TIMEOUT_MS,
    ) -> None:
        """`machines`: the other machines of this world, to which these are added."""
        self.world = world
        self.network = network
        self.timeout_bounds_ms = timeout_ms
        self.lag_ms_max = 0.0
        """How much longer than the network a server may take to apply what was committed."""
        self.epoch = 0
        self.zxid = 0
        self.tree = ZnodeTree()
        """With every transaction that was committed."""
        self.sessions: dict[int, SessionEntry] = {}
        self.leader: EnsembleServer | None = None
        self.log: list[CommittedTransaction] = []
        self.log_start = 0
        """Transactions before were applied everywhere and are dropped."""
        self.followers: list[Callable[[CommittedTransaction, object], None]] = []
        """They get each transaction that was committed, and its result, an error among them."""
        self._rng = world.rng("zookeeper")
        self._sessions_made = 0
        self._election_due_ms: float | None = 0.0
        machines = {} if machines is None else machines
        self.servers: list[EnsembleServer] = []
        for host in hosts:
            machine = SimMachine(world, network, host, SimDisk(world.rng(f"{host}/disk")))
            machines[host] = machine
            machine.machines = machines
            self.servers.append(EnsembleServer(self, machine, PORT))
        self._tick()

    @property
    def connect(self) -> str:
        """The value of ``zookeeper.connect``."""
        return ",".join(f"{server.host}:{PORT}" for server in self.servers)

    def server(self, host: str) -> EnsembleServer:
        return next(server for server in self.servers if server.host == host)

    @property
    def log_end(self) -> int:
        return self.log_start + len(self.log)

    # -- leader and followers --------------------------------------------------------------------

    def _tick(self) -> None:
        for server in self.servers:
            server.beat()
        if self.leader is not None and not self._has_majority(self.leader):
            self._lose_leader()
        if self.leader is None:
            self._maybe_elect()
        else:
            self._admit_followers(self.leader)
            self.leader.run(self._end_silent_sessions)
        self._drop_old_log()
        self.world.after(TICK_MS, self._tick)

    def is_up(self, server: EnsembleServer) -> bool:
        return (
            server.process is not None
            and server.process.alive
            and self.world.now_ms - server.beat_ms < SILENT_MS_MAX
        )

    def _are_linked(self, one: EnsembleServer, other: EnsembleServer) -> bool:
        cut = self.network.is_cut
        return not cut(one.host, other.host) and not cut(other.host, one.host)

    def _has_majority(self, leader: EnsembleServer) -> bool:
        if not self.is_up(leader):
            return False
        reached = [s for s in self.servers if self.is_up(s) and self._are_linked(leader, s)]
        return len(reached) * 2 > len(self.servers)

    def _lose_leader(self) -> None:
        self.world.note("zookeeper has no leader")
        self.leader = None
        self._election_due_ms = None
        for server in self.servers:
            server.stop_serving()

    def _maybe_elect(self) -> None:
        able = [server for server in self.servers if self._has_majority(server)]
        if not able:
            self._election_due_ms = None
        elif self._election_due_ms is None:
            self._election_due_ms = self.world.now_ms + self._rng.uniform(*ELECTION_MS)
        elif self.world.now_ms >= self._election_due_ms:
            self._lead(max(able, key=lambda server: (server.applied, server.host)))

    def _lead(self, leader: EnsembleServer) -> None:
        self.leader = leader
        self.epoch += 1
        self.zxid = self.epoch << 32
        for session in self.sessions.values():
            session.heard_ms = self.world.now_ms
        self.world.note(f"zookeeper's leader is {leader.host} in epoch {self.epoch}")
        self._admit_followers(leader)

    def _admit_followers(self, leader: EnsembleServer) -> None:
        for server in self.servers:
            if self.is_up(server) and self._are_linked(leader, server):
                if not server.is_serving:
                    server.start_serving()
            elif server.is_serving:
                server.stop_serving()

    def _drop_old_log(self) -> None:
        running = [server.applied for server in self.servers if server.process is not None]
        applied = min(running, default=self.log_end)
        del self.log[: applied - self.log_start]
        self.log_start = max(self.log_start, applied)

    # -- transactions ----------------------------------------------------------------------------

    def at_leader(self, action: Callable[[], None]) -> None:
        """Do `action` on the leader when a message has reached it; never, where there is none then."""
        epoch = self.epoch

        def arrived() -> None:
            if self.leader is not None and self.epoch == epoch:
                self.leader.run(lambda: action() if self.epoch == epoch else None)

        self.world.after(self.network.delay_ms(), arrived)

    def commit(self, connection: SessionConnection, xid: int, request: Any) -> None:
        """On the leader: take a change up. The server of `connection` answers when it has applied it."""
        refusal = self._check_owner(connection)
        if refusal is not None:
            self._send_back(connection, xid, refusal)
            return
        if request is None:
            self._end(connection.session, connection, xid)
            return
        self._append(request, connection.session, connection, xid)

    def _append(
        self, request: Any, session: int, origin: SessionConnection | None, xid: int
    ) -> None:
        self.zxid += 1
        wall_ms = START_WALL_MS + int(self.world.now_ms)
        entry = CommittedTransaction(self.zxid, request, session, wall_ms, origin, xid)
        self.log.append(entry)
        result = apply(self.tree, entry).result
        for follower in self.followers:
            follower(entry, result)
        end = self.log_end
        for server in self.servers:
            delay = self.network.delay_ms()
            if self.lag_ms_max and server is not self.leader:
                delay += self._rng.uniform(0.0, self.lag_ms_max)
            self.world.after(delay, lambda server=server: server.apply_to(end))  # type: ignore[misc]

    def sync(self, connection: SessionConnection, xid: int) -> None:
        """On the leader: `connection`'s server answers when it has applied what is committed now."""
        end = self.log_end
        self.world.after(
            self.network.delay_ms(), lambda: connection.server.answer_sync(connection, xid, end)
        )

    def _send_back(self, connection: SessionConnection, xid: int, answer: ZooKeeperError) -> None:
        self.world.after(
            self.network.delay_ms(), lambda: connection.server.answer(connection, xid, answer)
        )

    # -- sessions --------------------------------------------------------------------------------

    def touch(self, connection: SessionConnection) -> None:
        """A server has heard of the session."""
        session = self.sessions.get(connection.session)
        if (
            session is not None
            and session.connection is connection
            and connection.server.is_serving
        ):
            session.heard_ms = self.world.now_ms

    def open_session(
        self, connection: SessionConnection, session: int, password: int, timeout_ms: int
    ) -> None:
        """On the leader: a new session, or one that comes to another connection; time-out 0 where it is
        over."""
        low, high = self.timeout_bounds_ms
        if session == 0:
            self._sessions_made += 1
            session = SESSION_ID_FIRST + self._sessions_made
            password, granted = self._rng.getrandbits(63), min(max(timeout_ms, low), high)
            self.sessions[session] = SessionEntry(password, granted, connection, self.world.now_ms)
        else:
            entry = self.sessions.get(session)
            granted = 0
            if entry is not None and entry.password == password:
                entry.connection, entry.heard_ms = connection, self.world.now_ms
                granted = entry.timeout_ms
        end = self.log_end
        self.world.after(
            self.network.delay_ms(),
            lambda: connection.server.admit(connection, session, password, granted, end),
        )

    def expire(self, session: int) -> None:
        """End a session now, as if it had been silent: its owner believes that it lives."""
        if session in self.sessions:
            self._end(session, None, 0)

    def _check_owner(self, connection: SessionConnection) -> ZooKeeperError | None:
        session = self.sessions.get(connection.session)
        if session is None:
            return SessionExpired()
        return None if session.connection is connection else SessionMoved()

    def _end_silent_sessions(self) -> None:
        now = self.world.now_ms
        for session, entry in list(self.sessions.items()):
            if now - entry.heard_ms >= entry.timeout_ms:
                self.world.note(f"zookeeper session {session:#x} expires")
                self._end(session, None, 0)

    def _end(self, session: int, origin: SessionConnection | None, xid: int) -> None:
        del self.sessions[session]
        self._append(None, session, origin, xid)
