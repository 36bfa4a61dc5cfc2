"""The port to a ZooKeeper ensemble: sessions, their requests and their events.

`ZooKeeper.open` gives a `ZooKeeperSession`, at once and not yet connected. Requests are values
(`operations`); their results and errors (`errors`) come to the request's callback; changes of state and
watch events come to the session's one `SessionListener`. All calls are made on the node's thread and
all callbacks arrive there, never inside `open`, `submit` or `close`.

What holds, on the machine and in the simulator alike (tests/contract/zookeeper):

1. Every request is answered exactly once. Answers come in the order of the requests. 2. Answers and
watch events come in the order of zxid: the event of a change arrives before any answer that    shows
that change or a later one. So the owner of a watch hears of a change before it reads it. 3. A read
shows a state at least as new as everything this session was shown before, at whichever server.    It
may lag behind other sessions' changes; `SyncPath` before it catches up. 4. The connection may go
(`SUSPENDED`): then requests under way, and those submitted before it is back, are    answered
`ConnectionLoss`; whether they were done is unknown. Changes of one session are done in the order
submitted. None that was answered `ConnectionLoss` is done after `CONNECTED` was reported again. 5.
Watches are one-shot: one event per path and kind of watch, however often it was set. They outlive a
connection: back in the same session, events of what changed meanwhile arrive after `CONNECTED` and
before    any answer. With the session's end they are gone, without an event. 6. A session ends when the
ensemble has not heard of it for its time-out; its ephemeral znodes go in the same    transaction. Its
owner learns of that when it reaches a server again, not before: until then it may believe    that it
lives, so what it changes must be conditional on a znode's version. `EXPIRED` is reported once and    is
final: what is not answered is answered `SessionExpired`. An owner that still has work opens another. 7.
`close` ends the session at the ensemble, where it can be reached, after the requests before it.
`CLOSED`    is the last event.

Source: ZooKeeper's programmer's guide (consistency guarantees, sessions, watches), its ``ClientCnxn``,
and ``kafka.zookeeper.ZooKeeperClient`` of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar, runtime_checkable

from barnabas.security.tls_settings import TlsSettings
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.operations import Request

T = TypeVar("T")

PORT = 2181
"""The port of an address in ``zookeeper.connect`` that names none."""


class SessionState(Enum):
    """The client's view of its session: CONNECTING → CONNECTED ⇄ SUSPENDED → EXPIRED; any → CLOSED."""

    CONNECTING = "connecting"
    """Never connected yet; the ensemble knows no session. This lasts as long as no server answers."""
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """No connection. The session may live or may have expired."""
    EXPIRED = "expired"
    """Final: the ensemble has ended the session."""
    AUTH_FAILED = "auth_failed"
    """Final: the ensemble refuses the credentials."""
    CLOSED = "closed"
    """Final: this side has closed it."""

    @property
    def is_final(self) -> bool:
        return self in (SessionState.EXPIRED, SessionState.AUTH_FAILED, SessionState.CLOSED)


class WatchKind(Enum):
    """The event at the path of a `WatchEvent`."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    """The data was set."""
    CHILDREN = 4
    """A child was created or deleted."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """The watch of this path has fired and is gone. It does not say what is there now: read it again."""

    kind: WatchKind
    path: str


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of one session. Paths of requests, results and events are below the chroot and do not
    show it."""

    connect: str
    """`zookeeper.connect`: `host:port,host:port/chroot`. The chroot is made where it is missing."""
    session_timeout_ms: int = 18_000
    """`zookeeper.session.timeout.ms`; the ensemble may grant another one."""
    connection_timeout_ms: int = 18_000
    """`zookeeper.connection.timeout.ms`: of one attempt to connect to one server."""
    max_in_flight: int = 10
    """``zookeeper.max.in.flight.requests``: how many requests are sent ahead of their answers."""
    tls: TlsSettings | None = None
    """The keys ``zookeeper.ssl.*``; None where ``zookeeper.ssl.client.enable`` is false."""

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses, each with a port."""
        return tuple(
            name if ":" in name.rpartition("]")[2] else f"{name}:{PORT}"
            for part in self.connect.partition("/")[0].split(",")
            if (name := part.strip())
        )

    @property
    def chroot(self) -> str:
        """`/a/b`, or empty where there is none."""
        path = self.connect.partition("/")[2].strip("/ ")
        return f"/{path}" if path else ""


class SessionListener(Protocol):
    """The owner's side of a session."""

    def on_session_state(self, state: SessionState) -> None:
        """The session has come to this state. `CONNECTING` is where it begins and is not reported."""

    def on_watch(self, event: WatchEvent) -> None:
        """A watch has fired."""


class ZooKeeperSession(Protocol):
    """The world's side of a session."""

    @property
    def id(self) -> int:
        """The id in `Stat.ephemeral_owner` of this session's znodes; 0 before the first connection."""

    @property
    def state(self) -> SessionState:
        """The state that was last reported to the listener."""

    @property
    def timeout_ms(self) -> int:
        """The time-out that the ensemble has granted; before the first connection the one that was asked
        for."""

    def submit(self, request: Request[T], done: Callable[[T | ZooKeeperError], None]) -> None:
        """Ask. `done` gets the result or the error, later."""

    def close(self) -> None:
        """End the session. `CLOSED` follows, unless the session is over already."""


class MissingLibrary(Exception):
    """The client library is not installed; the message is one sentence that says what to install."""


class ZooKeeper(Protocol):
    """The way to an ensemble."""

    def open(self, settings: SessionSettings, listener: SessionListener) -> ZooKeeperSession:
        """Begin a session. It connects, and connects again, by itself until it is over. Raises
        ``ConfigError`` where TLS files cannot be used."""


@runtime_checkable
class HasZooKeeper(Protocol):
    """A world from which an ensemble can be reached."""

    @property
    def zookeeper(self) -> ZooKeeper:
        """Raises `MissingLibrary`."""
