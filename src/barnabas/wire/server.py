"""One listener and its connections: receives requests, calls handlers, sends responses. Sans-IO.

`RequestServer` owns a listener's API table, limits and connections; a `ServerConnection` is the
`ports.Receiver` of one connection. It sends responses in the order of their requests, though a `Parked` may
be completed in any order: responses behind a fetch that waits for records wait with it. All connections
together have a bound for response bytes.

Faults: malformed bytes and an unknown API or version close the connection, with one line in the log. An
unknown version of ApiVersions is answered (KIP-511). If a handler raises, the client gets an error
response. A response of None means that the protocol has none (Produce with acks=0); if such a request
fails, the server closes the connection, the only signal that the client can get.

Authentication precedes the first request: `Authenticator`.

Source: Kafka protocol guide; Kafka's ``SocketServer``.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from barnabas import limits
from barnabas.ports import Ports, Wakeup
from barnabas.wire import api_versions
from barnabas.wire.connection.authenticator import Anonymous, Authenticator
from barnabas.wire.connection.server_connection import Authorize, ServerConnection, allow_all
from barnabas.wire.connection.unread_responses import UnreadResponses
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.metering import RequestMeter
from barnabas.wire.request import RequestContext
from barnabas.wire.request_timing import RequestObserver

HOLD_MS_MAX = 1_000.0
"""How long connections are held before they are refused. A client that waits longer was sent here for what
this node led before it ended; it can ask other brokers meanwhile, which know who leads now."""


class Door(Enum):
    """How a listener treats connections."""

    SERVING = "serving"
    HOLDING = "holding"
    """A connection is accepted, and nothing is read from it yet."""
    REFUSING = "refusing"
    """A connection is closed at once: the node has not been ready for `HOLD_MS_MAX`."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one connection; Kafka's configuration keys and defaults where it has them."""

    request_max_bytes: int = 100 * 1024 * 1024
    """socket.request.max.bytes"""
    idle_max_ms: int = 600_000
    """connections.max.idle.ms; negative is no limit."""
    in_flight_max: int = limits.IN_FLIGHT_REQUESTS_MAX
    """Unanswered requests of one connection; at this number, reading pauses."""
    unsent_max_bytes: int = limits.UNSENT_BYTES_HIGH
    """Response bytes that the peer has not read; above this, its requests are not served."""


class RequestServer:
    """One listener's API table and connections. `accept` is the callback for `ports.network.listen`."""

    def __init__(  # noqa: PLR0913 - keywords of the composition root
        self,
        ports: Ports,
        listener: str,
        table: ApiTable,
        *,
        limits: ServerLimits | None = None,
        features: api_versions.FeatureSource = api_versions.Features,
        authenticator: Callable[[ServerConnection], Authenticator] = lambda connection: Anonymous(),
        authorize: Authorize = allow_all,
        on_disconnect: Callable[[int], None] | None = None,
        connection_ids: Iterator[int] | None = None,
    ) -> None:
        """`on_disconnect` gets the id of each connection that ended. `connection_ids` is shared
        by listeners whose ids must differ."""
        self.ports = ports
        self.now_ms = ports.clock.now_ms
        self.listener = listener
        self.table = table
        self.limits = limits or ServerLimits()
        self.features = features
        self.identity: api_versions.NodeIdentity | None = None
        """The ids that clients must mean if they say whom they mean; None: any."""
        self.authenticator = authenticator
        self.authorize = authorize
        self.on_disconnect = on_disconnect
        self.meter: RequestMeter | None = None
        """Meters requests for quotas; None while there are no quotas."""
        self.observer: RequestObserver | None = None
        """Counts requests for metrics; None where nothing shows them."""
        self.connections: dict[int, ServerConnection] = {}
        self.requests = 0
        self._ids = connection_ids if connection_ids is not None else itertools.count(1)
        self.unread = UnreadResponses(ports)
        self._idle_check: Wakeup | None = None
        self._door = Door.SERVING
        self._hold_ends: Wakeup | None = None

    def accept(self) -> ServerConnection:
        """The receiver of a new connection."""
        return ServerConnection(self, next(self._ids))

    def hold(self) -> None:
        """Accept connections but read nothing from them before `serve`; refuse them from `HOLD_MS_MAX` on."""
        self._door = Door.HOLDING
        ends_ms = self.now_ms() + HOLD_MS_MAX
        self._hold_ends = self.ports.wakeups.call_at(ends_ms, self._refuse)

    def _refuse(self) -> None:
        self._hold_ends = None
        self._door = Door.REFUSING
        for connection in list(self.connections.values()):
            connection.close()

    def serve(self) -> None:
        """Read from connections that `hold` has kept waiting, and from new ones."""
        if self._door in (Door.HOLDING, Door.REFUSING):
            self._end_hold()
            self._door = Door.SERVING
            for connection in list(self.connections.values()):
                connection.continue_reading()

    def _end_hold(self) -> None:
        if self._hold_ends is not None:
            self._hold_ends.cancel()
            self._hold_ends = None

    def close(self) -> None:
        """Close all connections when their queued responses are sent; parked requests are abandoned."""
        self._door = Door.CLOSED
        self._end_hold()
        if self._idle_check is not None:
            self._idle_check.cancel()
            self._idle_check = None
        for connection in list(self.connections.values()):
            connection.close()

    def validate(self) -> None:
        """Raises AssertionError where a connection contradicts its states."""
        for connection in self.connections.values():
            connection.validate()
        kept = sum(connection.kept_bytes for connection in self.connections.values())
        assert self.unread.kept_bytes == kept, f"kept responses of {self.listener} are miscounted"

    def statistics(self) -> dict[str, int]:
        return {
            "connections": len(self.connections),
            "requests": self.requests,
            "in_flight": sum(c.in_flight for c in self.connections.values()),
            "stalled": len(self.unread),
        }

    # -- by the connections ----------------------------------------------------------------------

    def opened(self, connection: ServerConnection) -> None:
        self.connections[connection.id] = connection
        if self._door in (Door.CLOSED, Door.REFUSING):
            connection.close()
            return
        if self._door is Door.HOLDING:
            connection.hold()
        if self._idle_check is None and self.limits.idle_max_ms >= 0:
            self._arm_idle_check()

    def closed(self, connection: ServerConnection) -> None:
        self.unread.forget(connection)
        if self.connections.pop(connection.id, None) is not None and self.on_disconnect:
            self.on_disconnect(connection.id)

    def on_fault(self, ctx: RequestContext, error: BaseException) -> None:
        self.ports.log(
            "error",
            "request.failed",
            request=repr(ctx),
            error=repr(error),
            traceback="".join(traceback.format_exception(error)),
        )

    def _arm_idle_check(self) -> None:
        at = self.now_ms() + max(self.limits.idle_max_ms / 4, 1.0)
        self._idle_check = self.ports.wakeups.call_at(at, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_check = None
        oldest = self.now_ms() - self.limits.idle_max_ms
        for connection in list(self.connections.values()):
            if connection.last_active_ms < oldest and not connection.waits_for_handler:
                connection.end("connection.idle", "debug")
        if self.connections:
            self._arm_idle_check()
