"""The ZooKeeper session of a node, opened again whenever it expires.

`SessionKeeper` owns the session and passes its events to its followers. Watches fire once and end with their
session: a follower reads and watches again when `on_connected` reports a new session.

Source: Kafka's ``ZooKeeperClient`` and ``KafkaZkClient`` (sessions that expire are replaced).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from posixpath import splitext
from typing import Protocol, TypeVar

from barnabas.ports import Ports, call_all
from barnabas.security.tls_settings import SecurityKeys, tls_settings
from barnabas.zookeeper.config.settings import ZookeeperSettings
from barnabas.zookeeper.errors import (
    ConnectionLoss,
    OperationTimeout,
    SessionExpired,
    ZooKeeperError,
)
from barnabas.zookeeper.operations import Request
from barnabas.zookeeper.secured_znodes import secured
from barnabas.zookeeper.session import (
    SessionSettings,
    SessionState,
    WatchEvent,
    ZooKeeper,
    ZooKeeperSession,
)

T = TypeVar("T")
RECONNECT_MS = 100.0
PREFIX = "zookeeper."


class SessionFollower(Protocol):
    """Receives the events of the session."""

    def on_connected(self, is_new: bool) -> None:
        """The session is connected (again). `is_new`: without watches and ephemeral znodes yet."""

    def on_expired(self) -> None:
        """The session expired, with its ephemeral znodes and watches."""

    def on_watch(self, event: WatchEvent) -> None:
        """A watch fired; it may be of another follower."""


class SessionKeeper:
    """Keeps the node's current session."""

    def __init__(
        self,
        ports: Ports,
        zookeeper: ZooKeeper,
        settings: SessionSettings,
        *,
        secures: bool = False,
    ) -> None:
        """`secures`: znodes are created with the ACLs of ``zookeeper.set.acl``."""
        self._secures = secures
        self._ports = ports
        self._zookeeper = zookeeper
        self._settings = settings
        self._session: ZooKeeperSession | None = None
        self._followers: list[SessionFollower] = []
        self._is_new = True
        self._closed = False
        self._on_closed: Callable[[], None] | None = None

    def follow(self, follower: SessionFollower) -> None:
        """Pass events to `follower` as well, after the earlier followers."""
        self._followers.append(follower)

    def open(self) -> None:
        """Begin the first session. Raises ``ConfigError``."""
        self._is_new = True
        self._session = self._zookeeper.open(self._settings, self)

    @property
    def id(self) -> int:
        return 0 if self._session is None else self._session.id

    @property
    def is_connected(self) -> bool:
        return self._session is not None and self._session.state is SessionState.CONNECTED

    @property
    def state_name(self) -> str:
        """The state of the session; ``none`` before the first one."""
        return "none" if self._session is None else self._session.state.value

    def submit(self, request: Request[T], done: Callable[[T | ZooKeeperError], None]) -> None:
        """Send a request once in the current session; `done` gets its result or error."""
        if self._session is None or self._closed:
            self._ports.wakeups.call_soon(lambda: done(SessionExpired()))
            return
        self._session.submit(secured(request) if self._secures else request, done)

    def ask(self, request: Request[T], done: Callable[[T | ZooKeeperError], None]) -> None:
        """Send a read, again and also in later sessions, until the ensemble answers."""

        def on_answer(result: T | ZooKeeperError) -> None:
            if not isinstance(result, (ConnectionLoss, OperationTimeout, SessionExpired)):
                done(result)
            elif not self._closed:
                at_ms = self._ports.clock.now_ms() + RECONNECT_MS
                self._ports.wakeups.call_at(at_ms, lambda: self.ask(request, done))

        self.submit(request, on_answer)

    def close(self, on_closed: Callable[[], None]) -> None:
        """End the session, and its ephemeral znodes with it; `on_closed` follows, once."""
        self._closed = True
        session = self._session
        if session is None or session.state.is_final:
            self._ports.wakeups.call_soon(on_closed)
            return
        self._on_closed = on_closed
        session.close()

    # -- what the session says ---------------------------------------------------------------------

    def on_session_state(self, state: SessionState) -> None:
        self._ports.log("info", "zookeeper.session", state=state.value, id=f"{self.id:#x}")
        if state is SessionState.CONNECTED:
            is_new, self._is_new = self._is_new, False
            call_all([partial(one.on_connected, is_new) for one in self._followers])
        elif state is SessionState.EXPIRED:
            try:
                call_all([one.on_expired for one in self._followers])
            finally:
                if not self._closed:
                    self.open()
        elif state is SessionState.AUTH_FAILED:
            self._ports.halt("the ZooKeeper ensemble refuses this broker's credentials")
        if state.is_final and self._closed and self._on_closed is not None:
            on_closed, self._on_closed = self._on_closed, None
            on_closed()

    def on_watch(self, event: WatchEvent) -> None:
        call_all([partial(one.on_watch, event) for one in self._followers])

    def __repr__(self) -> str:
        return f"SessionKeeper({self.id:#x}, {self.state_name})"


_STORE_TYPES = {".pem": "PEM", ".p12": "PKCS12", ".jks": "JKS"}


def session_settings(settings: ZookeeperSettings, texts: Mapping[str, str]) -> SessionSettings:
    """Settings of the session; `texts` are the node's properties. Raises ``ConfigError``."""
    tls = None
    if settings.tls:
        keys = {
            name.removeprefix(PREFIX): text
            for name, text in texts.items()
            if name.startswith(f"{PREFIX}ssl.") and name != "zookeeper.ssl.client.enable"
        }
        for store in ("ssl.keystore", "ssl.truststore"):
            kind = _STORE_TYPES.get(splitext(keys.get(f"{store}.location", ""))[1])
            if kind is not None:  # ZooKeeper's client also goes by the name of the file
                keys.setdefault(f"{store}.type", kind)
        tls = tls_settings(SecurityKeys(keys), is_server=False)
    return SessionSettings(
        settings.connect,
        settings.session_timeout_ms,
        settings.connection_timeout_ms or settings.session_timeout_ms,
        settings.max_in_flight,
        tls,
    )
