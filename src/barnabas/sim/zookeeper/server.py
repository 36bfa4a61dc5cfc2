"""One server of the twin: its copy of the tree, its clients' connections and their watches.

Requests of one connection are done in order: a read waits for the change before it. What was applied is
answered, and its watch events are sent, in the order of zxid. A restarted server has what was committed when
it went down, at the least.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.ports import Connection
from barnabas.sim.world.zookeeper_frames import (
    ADMITTED,
    ANSWER,
    CLOSE,
    CONNECT,
    EVENT,
    PING,
    ValueReader,
    send_frame,
)
from barnabas.sim.zookeeper.transactions import apply
from barnabas.types import Endpoint
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.operations import (
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    SyncPath,
)
from barnabas.zookeeper.watch_table import WatchedPaths, WatchTable
from barnabas.zookeeper.znode_tree import ZnodeTree, check_path

if TYPE_CHECKING:
    from barnabas.sim.world.process import SimMachine, SimProcess
    from barnabas.sim.zookeeper.ensemble import Ensemble

_READS = (GetData, Exists, GetChildren, GetAcl)


class SessionConnection(ValueReader):
    """One client's connection at a server."""

    def __init__(self, server: EnsembleServer) -> None:
        self.server = server
        self.session = 0
        self.watched = WatchedPaths()
        self.since_zxid = 0
        self.connection: Connection | None = None
        self.waiting: deque[tuple[int, Any]] = deque()
        self.is_busy = False
        """A change of it is with the leader."""
        super().__init__()

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection
        if not self.server.is_serving:
            connection.abort()

    def on_closed(self, error: OSError | None) -> None:
        self.connection = None
        self.server.forget(self)

    def send(self, *values: object) -> None:
        if self.connection is not None:
            send_frame(self.connection, *values)

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def on_frame(self, kind: str, *values: Any) -> None:
        if self.connection is None or not self.server.is_serving:
            return
        self.server.ensemble.touch(self)
        if kind == PING:
            self.send(PING)
        elif kind == CONNECT:
            self.server.on_connect(self, *values)
        else:
            self.waiting.append((values[0], None if kind == CLOSE else values[1]))
            self.server.do_next(self)


class EnsembleServer:
    """A server, up or down."""

    def __init__(self, ensemble: Ensemble, machine: SimMachine, port: int) -> None:
        self.ensemble = ensemble
        self.machine = machine
        self.host = machine.host
        self.process: SimProcess | None = None
        self.beat_ms = 0.0
        """When its process did something last."""
        self.applied = 0
        """How many transactions it has applied."""
        self.tree = ZnodeTree()
        self.is_serving = False
        self._endpoint = Endpoint(machine.host, port)
        self._connections: dict[SessionConnection, None] = {}
        self._watches: WatchTable[SessionConnection] = WatchTable()
        self._syncs: list[tuple[int, SessionConnection, int]] = []
        self.start()

    def __repr__(self) -> str:
        return f"EnsembleServer({self.host} {'serves' if self.is_serving else 'is out'})"

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start its process, with what it has on its disk."""
        self.process = self.machine.start_process()
        self.beat_ms = self.ensemble.world.now_ms
        self.process.network.listen(self._endpoint, self._accept)
        if self.applied < self.ensemble.log_start:
            self.tree = self.ensemble.tree.copy()
            self.applied = self.ensemble.log_end

    def kill(self, *, power_loss: bool = False) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill(power_loss=power_loss)
        self.process = None
        self.is_serving = False
        self._forget_all()

    def run(self, action: Callable[[], None]) -> None:
        """Do `action` on its process, if it has one."""
        if self.process is not None:
            self.process.run(action)

    def beat(self) -> None:
        """Called by the oracle's clock: an answer shows that the process runs."""
        self.run(self._beat)

    def _beat(self) -> None:
        self.beat_ms = self.ensemble.world.now_ms

    def start_serving(self) -> None:
        """It reaches a leader, and has everything that was committed before."""
        self.is_serving = True
        self.apply_to(self.ensemble.log_end)

    def stop_serving(self) -> None:
        """It reaches no leader: its clients look for another server."""
        self.is_serving = False
        for connection in list(self._connections):
            if connection.connection is not None:
                connection.connection.abort()
        self._forget_all()

    def _forget_all(self) -> None:
        self._connections.clear()
        self._watches = WatchTable()
        self._syncs.clear()

    # -- connections -----------------------------------------------------------------------------

    def _accept(self) -> SessionConnection:
        connection = SessionConnection(self)
        self._connections[connection] = None
        return connection

    def forget(self, connection: SessionConnection) -> None:
        self._connections.pop(connection, None)
        self._watches.forget(connection)

    def on_connect(
        self,
        connection: SessionConnection,
        session: int,
        password: int,
        timeout_ms: int,
        zxid: int,
        watched: WatchedPaths,
    ) -> None:
        """A client that has seen more than this server has to find another one."""
        if zxid > self.tree.zxid:
            connection.hang_up()
            return
        connection.watched, connection.since_zxid = watched, zxid
        ensemble = self.ensemble
        ensemble.at_leader(lambda: ensemble.open_session(connection, session, password, timeout_ms))

    def admit(
        self, connection: SessionConnection, session: int, password: int, timeout_ms: int, end: int
    ) -> None:
        """The leader has decided. A session that is over is answered when its end is applied here."""
        if not self.is_serving or connection.connection is None:
            return
        if timeout_ms == 0:
            self.apply_to(end)
        connection.session = session
        connection.send(ADMITTED, session, password, timeout_ms)
        if timeout_ms == 0:
            connection.hang_up()
            return
        for event in self._watches.resume(
            connection, connection.watched, self.tree, connection.since_zxid
        ):
            connection.send(EVENT, event, self.tree.zxid)

    # -- requests --------------------------------------------------------------------------------

    def do_next(self, connection: SessionConnection) -> None:
        """Answer what this server can answer; send the first change to the leader."""
        while connection.waiting and not connection.is_busy and connection.connection is not None:
            xid, request = connection.waiting.popleft()
            if isinstance(request, _READS):
                connection.send(ANSWER, xid, self._read(connection, request), self.tree.zxid)
                continue
            connection.is_busy = True
            self._ask_leader(connection, xid, request)

    def _ask_leader(self, connection: SessionConnection, xid: int, request: Any) -> None:
        ensemble = self.ensemble
        if isinstance(request, SyncPath):
            ensemble.at_leader(lambda: ensemble.sync(connection, xid))
        else:
            ensemble.at_leader(lambda: ensemble.commit(connection, xid, request))

    def _read(self, connection: SessionConnection, request: Any) -> object:
        try:
            check_path(request.path)
            if isinstance(request, Exists):
                node = self.tree.find(request.path)
                if request.watch:
                    self._watches.watch_data(request.path, connection)
                return None if node is None else node.stat()
            if isinstance(request, GetAcl):
                return self.tree.get_acl(request.path)
            if isinstance(request, GetData):
                data = self.tree.get(request.path)
                if request.watch:
                    self._watches.watch_data(request.path, connection)
                return data
            names = self.tree.children(request.path)
            if request.watch:
                self._watches.watch_children(request.path, connection)
            return names
        except ZooKeeperError as error:
            return error

    def answer(self, connection: SessionConnection, xid: int, answer: object) -> None:
        """To a change or a `SyncPath`; what waited behind it is done next."""
        if not self.is_serving:
            return
        connection.is_busy = False
        connection.send(ANSWER, xid, answer, self.tree.zxid)
        self.run(lambda: self.do_next(connection))

    def answer_sync(self, connection: SessionConnection, xid: int, end: int) -> None:
        if self.is_serving:
            self.run(lambda: self._answer_sync(connection, xid, end))

    def _answer_sync(self, connection: SessionConnection, xid: int, end: int) -> None:
        self._apply(end)
        self.answer(connection, xid, None)

    # -- transactions ----------------------------------------------------------------------------

    def apply_to(self, end: int) -> None:
        """Everything up to `end` was committed."""
        if self.is_serving:
            self.run(lambda: self._apply(end))

    def _apply(self, end: int) -> None:
        ensemble = self.ensemble
        while self.applied < end:
            entry = ensemble.log[self.applied - ensemble.log_start]
            self.applied += 1
            result, events, _ = apply(self.tree, entry)
            for event in events:
                for watcher in self._watches.fire(event):
                    watcher.send(EVENT, event, entry.zxid)
            origin = entry.connection
            if origin is not None and origin.server is self and origin in self._connections:
                self.answer(origin, entry.xid, result)
            if entry.request is None:
                self._hang_up(entry.session)

    def _hang_up(self, session: int) -> None:
        for connection in list(self._connections):
            if connection.session == session:
                connection.hang_up()
