"""The twin of the port: a session of a simulated process, over its simulated network.

As ZooKeeper's own client it pings, gives a silent server up after two thirds of the time-out, and tries the
next one; its timers run on the process's clock, so a paused process finds its session expired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from barnabas.ports import Connection, Ports, Wakeup
from barnabas.sim.world.zookeeper_frames import (
    ADMITTED,
    ANSWER,
    CLOSE,
    CONNECT,
    EVENT,
    PING,
    REQUEST,
    ValueReader,
    send_frame,
)
from barnabas.types import Endpoint
from barnabas.zookeeper.chroot import Chroot
from barnabas.zookeeper.errors import (
    ConnectionLoss,
    NodeExists,
    SessionExpired,
    ZooKeeperError,
)
from barnabas.zookeeper.operations import Exists, GetChildren, GetData, Request
from barnabas.zookeeper.session import (
    SessionListener,
    SessionSettings,
    SessionState,
)
from barnabas.zookeeper.watch_table import ClientWatches

T = TypeVar("T")

RECONNECT_MS = (20.0, 200.0)
"""Between two attempts to connect."""


class SimZooKeeper:
    """``zookeeper.session.ZooKeeper`` for one simulated process."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._opened = 0

    def open(self, settings: SessionSettings, listener: SessionListener) -> SimZooKeeperSession:
        self._opened += 1
        return SimZooKeeperSession(self._ports, settings, listener, self._opened)


class _Sent(NamedTuple):
    xid: int
    request: Any
    done: Callable[[Any], None]


class _Link(ValueReader):
    """One connection of a session; what comes after the session has given it up is dropped."""

    def __init__(self, session: SimZooKeeperSession) -> None:
        super().__init__()
        self._session = session
        self.connection: Connection | None = None

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection
        if self._session.link is self:
            self._session.on_linked()
        else:
            connection.abort()

    def on_closed(self, error: OSError | None) -> None:
        if self._session.link is self:
            self._session.on_lost()

    def on_frame(self, kind: str, *values: Any) -> None:
        if self._session.link is self:
            self._session.on_frame(kind, *values)

    def send(self, *values: object) -> None:
        if self.connection is not None:
            send_frame(self.connection, *values)

    def abort(self) -> None:
        if self.connection is not None:
            self.connection.abort()


class SimZooKeeperSession:
    """``zookeeper.session.ZooKeeperSession`` in simulation."""

    def __init__(
        self, ports: Ports, settings: SessionSettings, listener: SessionListener, number: int
    ) -> None:
        self.id = 0
        self.state = SessionState.CONNECTING
        self.timeout_ms = settings.session_timeout_ms
        self.link: _Link | None = None
        self._ports = ports
        self._settings = settings
        self._listener = listener
        self._chroot = Chroot(settings.chroot)
        self._rng = ports.rng(f"zookeeper/{number}")
        self._servers = [
            Endpoint(host, int(port))
            for host, _, port in (address.rpartition(":") for address in settings.servers)
        ]
        self._rng.shuffle(self._servers)
        self._password = 0
        self._zxid = 0
        self._xid = 0
        self._sent: deque[_Sent] = deque()
        self._waiting: deque[_Sent] = deque()
        self._watches = ClientWatches()
        self._heard_ms = 0.0
        self._chroot_is_made = not settings.chroot
        self._closing = False
        self._wakeup: Wakeup | None = None
        ports.wakeups.call_soon(self._connect)

    def __repr__(self) -> str:
        return f"SimZooKeeperSession({self.id:#x} {self.state.value})"

    # -- the port --------------------------------------------------------------------------------

    def submit(self, request: Request[T], done: Callable[[T | ZooKeeperError], None]) -> None:
        if self.state is not SessionState.CONNECTED or self._closing:
            path = str(getattr(request, "path", ""))
            over = self.state.is_final or self._closing
            error = SessionExpired(path) if over else ConnectionLoss(path)
            self._ports.wakeups.call_soon(partial(done, error))
            return
        self._ask(self._chroot.request(request), done)

    def close(self) -> None:
        if self._closing or self.state.is_final:
            return
        self._closing = True
        if self.state is SessionState.CONNECTED:
            self._ask(CLOSE, lambda answer: None)
        else:
            self._ports.wakeups.call_soon(lambda: self._end(SessionState.CLOSED))

    # -- requests --------------------------------------------------------------------------------

    def _ask(self, request: Any, done: Callable[[Any], None]) -> None:
        self._xid += 1
        self._waiting.append(_Sent(self._xid, request, done))
        self._send_waiting()

    def _send_waiting(self) -> None:
        link = self.link
        while link is not None and self._waiting and len(self._sent) < self._settings.max_in_flight:
            sent = self._waiting.popleft()
            self._sent.append(sent)
            if sent.request is CLOSE:
                link.send(CLOSE, sent.xid)
            else:
                link.send(REQUEST, sent.xid, sent.request)

    def _on_answer(self, xid: int, answer: Any, zxid: int) -> None:
        sent = self._sent.popleft()
        assert sent.xid == xid, "a server answers in the order of the requests"
        self._zxid = max(self._zxid, zxid)
        if sent.request is CLOSE:
            self._end(SessionState.CLOSED)
            return
        self._note_watch(sent.request, answer)
        self._send_waiting()
        sent.done(self._chroot.answer(answer))

    def _note_watch(self, request: Any, answer: Any) -> None:
        if not isinstance(request, (GetData, Exists, GetChildren)) or not request.watch:
            return
        if isinstance(answer, ZooKeeperError):
            return
        if isinstance(request, GetChildren):
            self._watches.on_children_watch(request.path)
        else:
            self._watches.on_data_watch(request.path, answer is not None)

    # -- connections -----------------------------------------------------------------------------

    def _connect(self) -> None:
        if self.state.is_final:
            return
        server = self._servers.pop(0)
        self._servers.append(server)
        self.link = _Link(self)
        self._wake_in(self._connect_ms())
        self._ports.network.connect(server, self.link)

    def _connect_ms(self) -> float:
        return min(self._settings.connection_timeout_ms, self.timeout_ms / len(self._servers))

    def on_linked(self) -> None:
        assert self.link is not None
        self.link.send(
            CONNECT, self.id, self._password, self.timeout_ms, self._zxid, self._watches.watched()
        )

    def on_lost(self) -> None:
        """The connection is gone, or was given up."""
        if self.link is not None:
            link, self.link = self.link, None
            link.abort()
        if self._closing:
            self._end(SessionState.CLOSED)
            return
        self._wake_in(self._rng.uniform(*RECONNECT_MS))
        if self.state is SessionState.CONNECTED:
            self._become(SessionState.SUSPENDED)
        self._fail(ConnectionLoss)

    def on_frame(self, kind: str, *values: Any) -> None:
        self._heard_ms = self._ports.clock.now_ms()
        if kind == ADMITTED:
            self._on_admitted(*values)
        elif kind == ANSWER:
            self._on_answer(*values)
        elif kind == EVENT:
            event, zxid = values
            self._zxid = max(self._zxid, zxid)
            if self._watches.on_event(event) and not self._closing:
                self._listener.on_watch(self._chroot.event(event))

    def _on_admitted(self, session: int, password: int, timeout_ms: int) -> None:
        if timeout_ms == 0:
            self._end(SessionState.EXPIRED)
            return
        self.id, self._password, self.timeout_ms = session, password, timeout_ms
        self._wake_in(self.timeout_ms / 3)
        if self._chroot_is_made:
            self._become(SessionState.CONNECTED)
            return
        creates = self._chroot.creates()
        for create in creates[:-1]:
            self._ask(create, lambda answer: None)
        self._ask(creates[-1], self._on_chroot)

    def _on_chroot(self, answer: Any) -> None:
        if isinstance(answer, ZooKeeperError) and not isinstance(answer, NodeExists):
            return  # the connection is gone; the next one tries again
        self._chroot_is_made = True
        self._become(SessionState.CONNECTED)

    # -- time ------------------------------------------------------------------------------------

    def _wake_in(self, delay_ms: float) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        now = self._ports.clock.now_ms()
        self._wakeup = self._ports.wakeups.call_at(now + delay_ms, self._on_wakeup)

    def _on_wakeup(self) -> None:
        """Time to connect again, to ping, or to give a silent server up."""
        link = self.link
        if link is None:
            self._connect()
        elif self.id == 0 or self.state not in (SessionState.CONNECTED, SessionState.CONNECTING):
            self.on_lost()  # the attempt takes too long
        elif self._ports.clock.now_ms() - self._heard_ms >= self.timeout_ms * 2 / 3:
            self.on_lost()
        else:
            link.send(PING)
            self._wake_in(self.timeout_ms / 3)

    # -- state -----------------------------------------------------------------------------------

    def _become(self, state: SessionState) -> None:
        self.state = state
        self._listener.on_session_state(state)

    def _end(self, state: SessionState) -> None:
        if self.state.is_final:
            return
        if self._wakeup is not None:
            self._wakeup.cancel()
        link, self.link = self.link, None
        if link is not None:
            link.abort()
        self._watches.clear()
        if state is SessionState.CLOSED:
            self.state = state
            self._fail(SessionExpired)
            self._listener.on_session_state(state)
        else:
            self._become(state)
            self._fail(SessionExpired)

    def _fail(self, error: type[ZooKeeperError]) -> None:
        """Answer what is not answered with `error`."""
        failed = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        for sent in failed:
            path = str(getattr(sent.request, "path", ""))
            sent.done(error(self._chroot.above(path)))
