"""Requests to other nodes: one connection per (endpoint, purpose), opened when it is needed.

Owns connections, negotiated versions, request time-outs, and the news that a process died. It
does not retry or back off: the caller gets one response or one `ChannelError` and decides. A new
request after a failure opens a new connection.

Invariants: `on_done` is called exactly once per `send` and never from within it; requests of
one (endpoint, purpose) go out in the order given. Used by the node (Raft, follower fetches,
broker to controller, forwarding) and by the clients of :mod:`barnabas.client`.

Source: Kafka's ``NetworkClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.client.network.authentication import Authentication
from barnabas.client.network.connection import (
    NO_BOUNDS,
    ChannelError,
    ClientConnection,
    InFlight,
    OnDone,
    VersionRanges,
)
from barnabas.client.network.traffic import CarriedTraffic
from barnabas.ports import ClientPorts, Wakeup, call_all
from barnabas.security.client_security import OPEN, ClientSecurity, SecureDialer
from barnabas.types import Endpoint
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.schema import Message

__all__ = ["ChannelError", "Channels", "OnDone"]

REQUEST_TIMEOUT_MS = 30_000.0


class _Watch:
    __slots__ = ("endpoint", "on_closed", "on_refused")

    def __init__(
        self,
        endpoint: Endpoint,
        on_closed: Callable[[], None] | None,
        on_refused: Callable[[], None] | None,
    ) -> None:
        self.endpoint = endpoint
        self.on_closed = on_closed
        self.on_refused = on_refused


class Channels:
    """All outgoing connections of one node or client."""

    def __init__(
        self,
        ports: ClientPorts,
        client_id: str,
        *,
        request_timeout_ms: float = REQUEST_TIMEOUT_MS,
        newest: Mapping[int, int] = NO_BOUNDS,
        security: ClientSecurity = OPEN,
        by_purpose: bool = True,
    ) -> None:
        """`security` is how every connection is made; `newest` the newest version to negotiate, by API
        key, where that is not the newest there is. Without `by_purpose` a target has one connection for
        all purposes: a client that asks one thing after the other needs no more."""
        self._ports = ports
        self._now_ms = ports.clock.now_ms
        self._client_id = client_id
        self._newest = newest
        self._by_purpose = by_purpose
        self._dialer = SecureDialer(ports, security, client_id)
        self._request_timeout_ms = request_timeout_ms
        self._connections: dict[tuple[Endpoint, str], ClientConnection] = {}
        self._versions: dict[Endpoint, VersionRanges] = {}
        self._traffic: dict[str, CarriedTraffic] = {}
        """The traffic by purpose, that of connections which have ended included."""
        self._watches: dict[Endpoint, list[_Watch]] = {}
        self._wakeup: Wakeup | None = None
        self._wakeup_at_ms = 0.0
        self._closed = False
        self.meant: Callable[[Endpoint], tuple[str, int] | None] = lambda target: None
        """The ids of the cluster and the node that a client means by an endpoint, or None."""
        self.on_misrouted: Callable[[], None] = lambda: None
        """Called where another node answers than was meant, before the requests concerned are done."""

    @property
    def security(self) -> ClientSecurity:
        """How connections are made."""
        return self._dialer.security

    def secure(self, security: ClientSecurity) -> None:
        """Make connections by `security` from now on; those that are open stay."""
        self._dialer.security = security

    def __repr__(self) -> str:
        return f"Channels({self._client_id} {list(self._connections.values())})"

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: OnDone,
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
        at_most: int | None = None,
    ) -> None:
        """Send `request`; `on_done` gets its response or a `ChannelError`, later, once.

        `version` None negotiates the highest that both sides serve, not above `at_most`. `timeout_ms`
        counts from now and includes connecting; when it passes, the connection ends with all it carries.
        `purpose` separates streams to one target: a long poll does not hold up a heartbeat.
        Produce with acks=0 has no response: `on_done` then gets None once it is sent.
        """
        if self._closed:
            self._later(on_done, ChannelError("closed", "these channels are closed"))
            return
        if not self._by_purpose:
            purpose = ""
        timeout = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._now_ms() + timeout
        connection = self._connections.get((target, purpose))
        if connection is None:
            connection = self._connect(target, purpose)
        if self._wakeup is None or deadline < self._wakeup_at_ms:
            self._arm(deadline)
        connection.submit(InFlight(request, on_done, deadline, version, at_most))

    def watch(
        self,
        target: Endpoint,
        *,
        on_closed: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Learn of deaths: `on_closed` when an open connection to `target` ends by its side or
        the network, `on_refused` when a connection attempt is refused. Returns a function that ends
        the watch. Called before the `on_done` of the requests concerned."""
        watch = _Watch(target, on_closed, on_refused)
        self._watches.setdefault(target, []).append(watch)

        def unwatch() -> None:
            watches = self._watches.get(target, [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._watches.pop(target, None)

        return unwatch

    def versions_of(self, target: Endpoint) -> VersionRanges | None:
        """The versions that `target` said it serves, by API key; None before a negotiation."""
        return self._versions.get(target)

    def traffic(self, *purposes: str) -> CarriedTraffic:
        """The traffic of all connections for these purposes."""
        return CarriedTraffic.sum_of(
            self._traffic[name] for name in purposes if name in self._traffic
        )

    def in_flight(self, target: Endpoint, purpose: str = "") -> int:
        connection = self._connections.get((target, purpose))
        return 0 if connection is None else connection.in_flight

    def probe(self, target: Endpoint, on_done: Callable[[bool], None]) -> None:
        """Open and close a connection: True where something listens or that stays unknown,
        False where the connection was refused (the process is gone)."""
        self._ports.network.connect(target, _Probe(on_done))

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None:
        """End the connections to `target` (of one purpose only, where it is given)."""
        call_all(
            connection.close
            for key, connection in list(self._connections.items())
            if key[0] == target and purpose in (None, key[1])
        )

    def close(self) -> None:
        """End all; every request in flight gets a `ChannelError` of kind closed."""
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        call_all(connection.close for connection in list(self._connections.values()))
        self._watches.clear()

    # -- connections -----------------------------------------------------------------------------

    def _connect(self, target: Endpoint, purpose: str) -> ClientConnection:
        def on_end(connection: ClientConnection, error: ChannelError) -> None:
            if self._connections.get((target, purpose)) is connection:
                del self._connections[target, purpose]
            self._on_end(connection, error)

        connection = ClientConnection(
            target,
            self._client_id,
            on_end,
            self._ports.wakeups.call_soon,
            versions=self._versions.get(target),
            newest=self._newest,
            on_versions=lambda ranges: self._versions.__setitem__(target, ranges),
            authentication=self._authentication(),
            meant=self.meant(target),
            traffic=self._traffic.setdefault(purpose, CarriedTraffic()),
        )
        self._connections[target, purpose] = connection
        self._dialer.connect(target, connection)
        return connection

    def _authentication(self) -> Authentication | None:
        dialer = self._dialer
        if dialer.security.sasl is None:
            return None
        return Authentication(dialer.security.sasl.mechanism, dialer.exchange, self._now_ms)

    def _on_end(self, connection: ClientConnection, error: ChannelError) -> None:
        target = connection.endpoint
        # A node that comes back may be another version of the program.
        self._versions.pop(target, None)
        reported = [self.on_misrouted] if error.kind == "misrouted" else []
        for watch in self._watches.get(target, ()):
            if error.kind == "refused" and watch.on_refused is not None:
                reported.append(watch.on_refused)
            elif connection.ended_by_peer and watch.on_closed is not None:
                reported.append(watch.on_closed)
        call_all(reported)

    def _later(self, on_done: OnDone, error: ChannelError) -> None:
        self._ports.wakeups.call_soon(lambda: on_done(error))

    # -- time ------------------------------------------------------------------------------------

    def _arm(self, deadline_ms: float) -> None:
        """Wake up then, where nothing does earlier."""
        if self._wakeup is not None:
            if self._wakeup_at_ms <= deadline_ms:
                return
            self._wakeup.cancel()
        self._wakeup_at_ms = deadline_ms
        self._wakeup = self._ports.wakeups.call_at(deadline_ms, self._on_wakeup)

    def postpone(self, by_ms: float) -> None:
        """Put off the deadlines of all requests, for a program whose loop did not run for so long."""
        for connection in self._connections.values():
            connection.postpone(by_ms)

    def _on_wakeup(self) -> None:
        self._wakeup = None
        now_ms = self._ports.clock.now_ms()
        try:
            call_all(partial(c.expire, now_ms) for c in list(self._connections.values()))
        finally:
            deadlines = [c.next_deadline_ms() for c in self._connections.values()]
            earliest = min((d for d in deadlines if d is not None), default=None)
            if earliest is not None:
                self._arm(earliest)


class _Probe:
    """A receiver that only finds out whether a process listens."""

    def __init__(self, on_done: Callable[[bool], None]) -> None:
        self._on_done: Callable[[bool], None] | None = on_done
        self._buffer = memoryview(bytearray(64))

    def _complete(self, alive: bool) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(alive)

    def on_connected(self, connection: object) -> None:
        connection.abort()  # type: ignore[attr-defined]
        self._complete(True)

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        return

    def on_closed(self, error: OSError | None) -> None:
        self._complete(not isinstance(error, ConnectionRefusedError))


def serves(ranges: VersionRanges, key: ApiKey, at_least: int = 0) -> bool:
    """Whether a peer's ranges and this program's have a version of `key` from `at_least` on."""
    low, high = ranges.get(key, (0, -1))
    schema = API_SCHEMAS[key]
    return min(high, schema.max_stable_version) >= max(low, schema.min_version, at_least)
