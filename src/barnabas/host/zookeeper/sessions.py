"""``zookeeper.session.ZooKeeper`` over kazoo: one thread per session, all callbacks on the node's loop.

kazoo manages the connection: it connects, sends pings, fails over to another server, and notices expiry. This
module adds what the port promises beyond that. Answers, watch events and state changes go from the
connection's thread to the loop in the order of their arrival; kazoo's own callback threads are not started.
Watches are set again on another server. A session that ended is not reopened. The module is imported when the
first session is opened, so a node without ZooKeeper does not import kazoo.

Source: kazoo's ``KazooClient`` and ``ConnectionHandler``; Kafka's ``ZooKeeperClient``.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect, Watch
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from barnabas.host.loop import Loop
from barnabas.host.tls_contexts import HostSecrets
from barnabas.host.zookeeper.wire import Resume, result_of, to_kazoo
from barnabas.zookeeper.chroot import Chroot
from barnabas.zookeeper.errors import (
    ConnectionLoss,
    NodeExists,
    ServerError,
    SessionExpired,
    ZooKeeperError,
    error_of,
)
from barnabas.zookeeper.operations import Exists, GetChildren, GetData, Request
from barnabas.zookeeper.session import (
    SessionListener,
    SessionSettings,
    SessionState,
    WatchEvent,
    WatchKind,
)
from barnabas.zookeeper.watch_table import ClientWatches

T = TypeVar("T")
Post = Callable[[Callable[[], None]], None]
RETRY_S = 0.05
RETRY_S_MAX = 1.0
"""Seconds between two rounds of attempts on all servers, at first and at most."""
_STATES = {
    KeeperState.CONNECTED: SessionState.CONNECTED,
    KeeperState.CONNECTING: SessionState.SUSPENDED,
    KeeperState.EXPIRED_SESSION: SessionState.EXPIRED,
    KeeperState.AUTH_FAILED: SessionState.AUTH_FAILED,
    KeeperState.CLOSED: SessionState.CLOSED,
}


class HostZooKeeper:
    """Opens sessions for one process. `secrets` makes TLS contexts, if one is needed."""

    def __init__(
        self, loop: Loop, log: Callable[..., None], secrets: Callable[[], HostSecrets]
    ) -> None:
        self._loop = loop
        self._log = log
        self._secrets = secrets

    def open(self, settings: SessionSettings, listener: SessionListener) -> KazooSession:
        context = None
        if settings.tls is not None:
            self._secrets().check_tls(settings.tls, is_server=False)
            context = partial(self._secrets().context, settings.tls, is_server=False)
        return KazooSession(self._loop, self._log, settings, listener, context)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler of threads and sockets, without its threads for callbacks."""

    def __init__(self, connect_s: float, context: Callable[[], ssl.SSLContext] | None) -> None:
        super().__init__()
        self._connect_s = connect_s
        self._context = context

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, **_: object
    ) -> socket.socket:
        plain = socket.create_connection(address, self._connect_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return plain
            return self._context().wrap_socket(plain, server_hostname=hostname or address[0])
        except BaseException:
            plain.close()
            raise

    def select(self, readers: list[Any], writers: list[Any], *rest: Any) -> Any:
        """Select as ``select`` does; a TLS socket with decrypted bytes in its buffer is readable."""
        ready = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        return (ready, [], []) if ready else super().select(readers, writers, *rest)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """The connection's thread: passes on watch events, and sets watches again after a reconnect."""

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        event = WatchEvent(WatchKind(watch.type), watch.path)
        if self.client.watches.on_event(event):
            self.client.post(partial(self.client.kazoo_session.on_event, event))

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect):
            # kazoo reports CONNECTED after this: a listener may read the time-out at once.
            self.client.granted_ms = max(answer[0].time_out, 0)
        return answer

    def _connect(self, *arguments: Any) -> Any:
        times = super()._connect(*arguments)
        watched = self.client.watches.watched()
        if watched:
            # Before all waiting requests, so that the events of missed changes precede their answers.
            resume = Resume(watched, self.client.last_zxid)
            self.client._queue.appendleft((resume, _IgnoredAnswer()))
            self._write_sock.send(b"\0")
        return times


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client for one session. Only the connection's thread uses `watches`."""

    def __init__(self, kazoo_session: KazooSession, post: Post, **options: Any) -> None:
        """`post` runs a call on the loop's thread."""
        self.kazoo_session = kazoo_session
        self.post = post
        self.watches = ClientWatches()
        self.granted_ms = 0
        super().__init__(**options)
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger)

    def _session_callback(self, state: str) -> None:
        if state != self._state and state in _STATES:
            if state == KeeperState.EXPIRED_SESSION:
                self._stopped.set()  # otherwise kazoo opens another session
            self.post(partial(self.kazoo_session.on_keeper_state, _STATES[state]))
        super()._session_callback(state)

    def _reset_watchers(self) -> None:
        """Do nothing: watches outlive the connection, and kazoo has none of its own."""

    def ask(self, request: Any, answer: Any) -> None:
        self._call(request, answer)


class _IgnoredAnswer:
    """Ignores the answer to a request of this module."""

    def set(self, value: object) -> None:
        pass

    def set_exception(self, error: BaseException) -> None:
        pass


class _Answer:
    """Receives one answer on the connection's thread, and passes it to the loop."""

    __slots__ = ("_client", "_is_given", "_request", "done")

    def __init__(self, client: _Client, request: Any, done: Callable[[Any], None]) -> None:
        self._client = client
        self._request = request
        self.done = done
        self._is_given = False

    def set(self, value: Any) -> None:
        request = self._request
        if isinstance(request, (GetData, Exists, GetChildren)) and request.watch:
            if isinstance(request, GetChildren):
                self._client.watches.on_children_watch(request.path)
            else:
                self._client.watches.on_data_watch(request.path, value is not None)
        self._give(result_of(request, value))

    def set_exception(self, error: BaseException) -> None:
        path = getattr(self._request, "path", "")
        code = getattr(error, "code", None)
        self._give(ServerError(path, str(error)) if code is None else error_of(code, path))

    def _give(self, answer: Any) -> None:
        if not self._is_given:
            self._is_given = True
            self._client.post(partial(self._client.kazoo_session.on_answer, self.done, answer))


class _Waiting(NamedTuple):
    request: Any
    done: Callable[[Any], None]


class KazooSession:
    """``zookeeper.session.ZooKeeperSession``. Its methods run on the loop's thread, kazoo on its own."""

    def __init__(
        self,
        loop: Loop,
        log: Callable[..., None],
        settings: SessionSettings,
        listener: SessionListener,
        context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        self.state = SessionState.CONNECTING
        self._loop = loop
        self._listener = listener
        self._chroot = Chroot(settings.chroot)
        self._chroot_is_made = not settings.chroot
        self._max_in_flight = max(settings.max_in_flight, 1)
        self._in_flight = 0
        self._waiting: deque[_Waiting] = deque()
        self._closing = False
        self._client = _Client(
            self,
            self._post,
            hosts=",".join(settings.servers),
            timeout=settings.session_timeout_ms / 1000,
            handler=_Handler(settings.connection_timeout_ms / 1000, context),
            connection_retry=KazooRetry(max_tries=-1, delay=RETRY_S, max_delay=RETRY_S_MAX),
            logger=_logger(loop, log),
            use_ssl=context is not None,
        )
        self._client.start_async()

    def __repr__(self) -> str:
        return f"KazooSession({self.id:#x} {self.state.value})"

    # -- the port --------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        return self._client._session_id or 0

    @property
    def timeout_ms(self) -> int:
        return self._client.granted_ms or int(self._client._session_timeout)

    def submit(self, request: Request[T], done: Callable[[T | ZooKeeperError], None]) -> None:
        if self.state is not SessionState.CONNECTED or self._closing:
            path = str(getattr(request, "path", ""))
            over = self.state.is_final or self._closing
            error = SessionExpired(path) if over else ConnectionLoss(path)
            self._loop.call_soon(partial(done, error))
            return
        self._ask(self._chroot.request(request), done)

    def close(self) -> None:
        if self._closing or self.state.is_final:
            return
        self._closing = True
        while self._waiting:
            self._hand_over(self._waiting.popleft())
        Thread(target=self._stop, name="zookeeper-close", daemon=True).start()

    def _stop(self) -> None:
        """Runs on a thread of its own, since kazoo blocks until the connection has ended."""
        try:
            self._client.stop()
            self._client.close()
        finally:
            self._post(lambda: self._end(SessionState.CLOSED))

    # -- requests --------------------------------------------------------------------------------

    def _ask(self, request: Any, done: Callable[[Any], None]) -> None:
        self._waiting.append(_Waiting(request, done))
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and self._in_flight < self._max_in_flight:
            self._hand_over(self._waiting.popleft())

    def _hand_over(self, waiting: _Waiting) -> None:
        self._in_flight += 1
        answer = _Answer(self._client, waiting.request, waiting.done)
        self._client.ask(to_kazoo(waiting.request), answer)

    def on_answer(self, done: Callable[[Any], None], answer: Any) -> None:
        self._in_flight -= 1
        if self.state is not SessionState.SUSPENDED:
            self._send_waiting()
        done(self._chroot.answer(answer))
        if self.state is SessionState.SUSPENDED or self.state.is_final:
            self._fail_waiting()

    def _fail_waiting(self) -> None:
        """Fail the requests that were not sent, after the answers of those that were: answers keep their
        order."""
        while self._waiting and not self._in_flight:
            request, done = self._waiting.popleft()
            path = self._chroot.above(str(getattr(request, "path", "")))
            done(SessionExpired(path) if self.state.is_final else ConnectionLoss(path))

    # -- events ----------------------------------------------------------------------------------

    def on_event(self, event: WatchEvent) -> None:
        if not self._closing and not self.state.is_final:
            self._listener.on_watch(self._chroot.event(event))

    def on_keeper_state(self, state: SessionState) -> None:
        if self.state.is_final or (self._closing and not state.is_final):
            return
        if state.is_final:
            self._end(state)
        elif state is SessionState.CONNECTED and not self._chroot_is_made:
            self._make_chroot()
        elif state is SessionState.CONNECTED or self.state is SessionState.CONNECTED:
            self._become(state)

    def _make_chroot(self) -> None:
        creates = self._chroot.creates()
        for create in creates[:-1]:
            self._ask(create, lambda answer: None)
        self._ask(creates[-1], self._on_chroot)

    def _on_chroot(self, answer: Any) -> None:
        if isinstance(answer, ZooKeeperError) and not isinstance(answer, NodeExists):
            return  # the connection was lost; the next one tries again
        self._chroot_is_made = True
        if self.state is SessionState.CONNECTING:
            self._become(SessionState.CONNECTED)

    def _become(self, state: SessionState) -> None:
        self.state = state
        self._listener.on_session_state(state)
        if state is not SessionState.CONNECTED:
            self._fail_waiting()

    def _end(self, state: SessionState) -> None:
        if self.state.is_final:
            return
        if self._closing:
            state = SessionState.CLOSED
        elif state is SessionState.CLOSED:
            state = SessionState.EXPIRED  # kazoo gave up without being asked to
        self._become(state)

    def _post(self, action: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)


def _logger(loop: Loop, log: Callable[..., None]) -> logging.Logger:
    """kazoo's warnings become events of the node's log."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not loop.is_closed():
                message = record.getMessage()
                loop.call_soon_threadsafe(
                    lambda: log("warning", "zookeeper.connection", message=message)
                )

    logger = logging.Logger("kazoo", logging.WARNING)
    logger.addHandler(Forward())
    return logger
