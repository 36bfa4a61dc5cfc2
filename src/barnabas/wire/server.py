"""One listener and its connections: receives requests, calls handlers, sends responses. Sans-IO.

`RequestServer` owns a listener's API table, limits and connections; a `ServerConnection` is the
`ports.Receiver` of one connection. It sends responses in the order of their requests, though a `Parked` may
be completed in any order: responses behind a fetch that waits for records wait with it. The
connection bounds what a peer can make this node hold: frame size, requests in flight, response bytes that
the peer has not read, and idle time. All connections together have a bound for response bytes, too.

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
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from barnabas import limits
from barnabas.ports import Connection, Ports, Wakeup
from barnabas.types import Buffer, Endpoint
from barnabas.wire import api_versions
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import MalformedError
from barnabas.wire.dispatch import (
    ApiEntry,
    ApiTable,
    Header,
    NoAnswerError,
    answer_to,
    call,
    decode_request,
    encode_or_error,
    parse_header,
    refusal_code,
    refuse,
)
from barnabas.wire.errors import KafkaError
from barnabas.wire.frames import SIZE, FrameReader
from barnabas.wire.metering import Charge, RequestMeter, Spent
from barnabas.wire.request import Api, Parked, Proof, RequestContext, Working
from barnabas.wire.schema import Message
from barnabas.wire.text import java_text
from barnabas.wire.unread_responses import UnreadResponses

NO_PEER = Endpoint("", 0)
API_VERSIONS, FETCH = int(ApiKey.API_VERSIONS), int(ApiKey.FETCH)
FETCH_KEY = FETCH.to_bytes(2, "big")
_new_context = RequestContext.__new__
FLUSH_BYTES = 256 * 1024
"""Responses to requests that were received together are sent together, up to this size."""
BURST_BYTES = 4 * 1024 * 1024
"""Responses that one connection gets in one turn of the loop; its further requests wait for a later turn."""


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


class Authenticator(Protocol):
    """The stage before a connection's first request."""

    @property
    def principal(self) -> str | None:
        """``User:name``; None before authentication, while only the APIs of `entry` are served."""

    @property
    def proof(self) -> Proof: ...

    def entry(self, api_key: int) -> ApiEntry | None:
        """The entry that serves `api_key` in place of the listener's table, during and after
        authentication; None leaves it to the table. May close the connection."""


class Identified:
    """An `Authenticator` for a peer whose principal is known from TLS (its certificate)."""

    def __init__(self, principal: str) -> None:
        self.principal: str | None = principal
        self.proof = Proof.NONE if principal == "User:ANONYMOUS" else Proof.OWN

    def entry(self, api_key: int) -> ApiEntry | None:
        return None


class TokenStage(Protocol):
    """An `Authenticator` that begins without a principal (SASL), and bounds the frames before there is
    one."""

    @property
    def takes_raw_tokens(self) -> bool:
        """Whether the next frame is a token without a header (SaslHandshake v0)."""

    @property
    def frame_bytes_max(self) -> int: ...

    def on_raw_token(self, token: bytes) -> bytes | None:
        """The answer to a raw token; None where the connection is closed instead."""

    def on_closed(self) -> None: ...


class Anonymous:
    """An `Authenticator` that needs none: every connection is User:ANONYMOUS."""

    principal: str | None = "User:ANONYMOUS"
    proof = Proof.NONE

    def entry(self, api_key: int) -> ApiEntry | None:
        return None


Authorize = Callable[[RequestContext, Api], bool]


def allow_all(ctx: RequestContext, api: Api) -> bool:
    return True


class RequestServer:
    """One listener's API table and connections. `accept` is the callback for `ports.network.listen`."""

    def __init__(
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
        self.authenticator = authenticator
        self.authorize = authorize
        self.on_disconnect = on_disconnect
        self.meter: RequestMeter | None = None
        """Meters requests for quotas; None while there are no quotas."""
        self.connections: dict[int, ServerConnection] = {}
        self.requests = 0
        self._ids = connection_ids if connection_ids is not None else itertools.count(1)
        self.unread = UnreadResponses(ports)
        self._idle_check: Wakeup | None = None
        self._closing = False
        self._held = False

    def accept(self) -> ServerConnection:
        """The receiver of a new connection."""
        return ServerConnection(self, next(self._ids))

    def hold(self) -> None:
        """Accept connections but read nothing from them before `serve`."""
        self._held = True

    def serve(self) -> None:
        """Read from connections that `hold` has kept waiting."""
        if self._held:
            self._held = False
            for connection in list(self.connections.values()):
                connection.continue_reading()

    def close(self) -> None:
        """Close all connections when their queued responses are sent; parked requests are abandoned."""
        self._closing = True
        if self._idle_check is not None:
            self._idle_check.cancel()
            self._idle_check = None
        for connection in list(self.connections.values()):
            connection.close()

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
        if self._closing:
            connection.close()
            return
        if self._held:
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


class _Turn:
    """One request's place in the order of responses."""

    __slots__ = ("_connection", "_ctx", "_entry", "_request", "charge", "done", "parked", "parts")

    def __init__(
        self,
        connection: ServerConnection,
        entry: ApiEntry,
        request: Message,
        ctx: RequestContext,
        charge: Charge | None = None,
    ) -> None:
        self.charge = charge
        self._connection = connection
        self._entry = entry
        self._request = request
        self._ctx = ctx
        self.parked: Parked | None = None
        self.parts: list[Buffer] | None = None
        self.done = False

    def reply(self, response: Message | None) -> None:
        self._connection.answer(self, self._entry, self._request, self._ctx, response)
        self.parked = None

    def fail(self, error: Exception) -> None:
        """The processing of a `Working` request raised `error`: answer with it."""
        connection, entry, ctx = self._connection, self._entry, self._ctx
        try:
            response = answer_to(error, entry, self._request, ctx, connection.server.on_fault)
        except NoAnswerError as unanswered:
            connection.end("request.failed_unanswered", request=repr(ctx), error=str(unanswered))
        else:
            self.reply(response)


class ServerConnection:
    """One connection. `in_flight` is the number of its requests whose response is not sent yet."""

    def __init__(self, server: RequestServer, connection_id: int) -> None:
        self.id = connection_id
        self.server = server
        self._limits = server.limits
        self.peer = NO_PEER
        self.last_active_ms = self.connected_at_ms = 0.0
        self.software = ""
        self._connection: Connection | None = None
        self._authenticator: Authenticator = Anonymous()
        self._tokens: TokenStage | None = None
        """The authenticator, if it is a `TokenStage`; else None."""
        self._frames = FrameReader(self._on_frame, server.limits.request_max_bytes)
        self.get_buffer = self._frames.get_buffer
        self._turns: deque[_Turn] = deque()
        self._backlog: deque[memoryview] = deque()
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._kept_bytes = self._burst_bytes = 0
        """Sizes of the responses that wait for an earlier one, and of those since the connection's turn."""
        self._corked = False
        self._paused = False
        self._client_id: tuple[bytes | None, str | None] = (None, None)
        self._last: ApiEntry | None = None
        self._fetch: _Turn | None = None
        """A fetch without an answer yet. The next fetch waits for it: fetch responses are the largest, and
        its response would be held in memory until the first one is sent."""
        self._held = False
        """Whether a `Working` request is in progress that no other request may overtake."""
        self._spent = Spent(server.now_ms, server.ports.wakeups.callback_began_ms)
        self._muted_until_ms: float | None = None
        """The client has exceeded a quota: until this instant nothing is read or served."""

    def __repr__(self) -> str:
        return f"ServerConnection({self.id} {self.peer} on {self.server.listener})"

    @property
    def doing(self) -> str:
        """The last request's API, for logs."""
        return self._last.api.key.name if self._last is not None else type(self).__name__

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def in_flight(self) -> int:
        return len(self._turns)

    @property
    def waits_for_handler(self) -> bool:
        """Whether the connection is silent because of this node: it throttles it or has yet to answer."""
        return self._muted_until_ms is not None or any(not turn.done for turn in self._turns)

    # -- ports.Receiver --------------------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        self.peer = connection.peer
        self.last_active_ms = self.connected_at_ms = self.server.now_ms()
        self.server.opened(self)
        authenticator = self._authenticator = self.server.authenticator(self)
        if authenticator.principal is None:
            self._tokens = cast("TokenStage", authenticator)
            self._frames.max_frame_bytes = min(
                self._tokens.frame_bytes_max, self._limits.request_max_bytes
            )

    @property
    def transport(self) -> Connection | None:
        """The stream below; None once it has ended."""
        return self._connection

    @property
    def principal(self) -> str | None:
        return self._authenticator.principal

    def on_authenticated(self) -> None:
        """Called by the authenticator when there is a principal: the usual limit of request size now
        applies."""
        self._frames.max_frame_bytes = self._limits.request_max_bytes

    def buffer_updated(self, size: int) -> None:
        if self._connection is None:
            return
        self.last_active_ms = self.server.now_ms()
        self._corked, self._burst_bytes = True, 0
        try:
            self._frames.buffer_updated(size)
        except MalformedError as error:
            self.end("connection.malformed", error=str(error))
        finally:
            self._corked = False
        if self._out:
            self._flush()

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None
        if self._tokens is not None:
            self._tokens.on_closed()
        for turn in self._turns:
            if turn.parked is not None:
                turn.parked.abandon()
        self._turns.clear()
        self._fetch, self._held = None, False
        self._backlog.clear()
        self._out.clear()
        self._out_bytes = 0
        self._keep(-self._kept_bytes)
        self.server.closed(self)

    # -- ending ----------------------------------------------------------------------------------

    def hold(self) -> None:
        """Read nothing before `continue_reading`."""
        if self._connection is not None and not self._paused:
            self._paused = True
            self._connection.pause_reading()

    def close(self) -> None:
        """Close when the queued responses are sent."""
        self._flush()
        if self._connection is not None:
            self._connection.close()

    def end(self, event: str, level: str = "warning", **fields: object) -> None:
        """Close because of the peer's behaviour, with one line in the log."""
        if self._connection is None:
            return
        self.server.ports.log(
            level, event, listener=self.server.listener, peer=str(self.peer), **fields
        )
        connection, self._connection = self._connection, None
        if self._out:
            connection.send(self._out)
            self._out, self._out_bytes = [], 0
        connection.close()

    # -- requests --------------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        if self._backlog or self._must_wait(frame):
            self._backlog.append(frame)
            self._pause()
        else:
            self._serve(frame)

    def _must_wait(self, frame: memoryview) -> bool:
        return self._held or self._is_full() or (self._fetch is not None and frame[:2] == FETCH_KEY)

    def _is_full(self) -> bool:
        bounds, connection = self._limits, self._connection
        if len(self._turns) >= bounds.in_flight_max or self._muted_until_ms is not None:
            return True
        if connection is None:
            return False
        if self._out_bytes > FLUSH_BYTES:
            self._flush(force=True)
        unsent_bytes = connection.unsent_bytes + self._kept_bytes
        return (
            self._burst_bytes > BURST_BYTES
            or unsent_bytes > bounds.unsent_max_bytes
            or (unsent_bytes > 0 and self.server.unread.are_too_many)
        )

    def _pause(self) -> None:
        if self._connection is None:
            return
        if not self._paused:
            self._paused = True
            self._connection.pause_reading()
        if len(self._turns) < self._limits.in_flight_max and self._muted_until_ms is None:
            self.server.unread.stall(self)  # the network does not report when bytes are taken: poll

    def continue_reading(self) -> None:
        """Serve the requests in the backlog, as far as the limits allow, and resume reading."""
        if not self._paused or self._connection is None or self._muted_until_ms is not None:
            return
        was_corked, self._corked, self._burst_bytes = self._corked, True, 0
        try:
            while self._backlog and self.is_open and not self._must_wait(self._backlog[0]):
                self._serve(self._backlog.popleft())
        except MalformedError as error:
            self.end("connection.malformed", error=str(error))
        finally:
            self._corked = was_corked
        self._flush()
        if self._backlog or self._is_full():
            self._pause()
        elif self.is_open:
            self._paused = False
            self._connection.resume_reading()

    def _serve(self, frame: memoryview) -> None:
        if self._connection is None:
            return
        if self._tokens is not None and self._tokens.takes_raw_tokens:
            self._serve_token(self._tokens, frame)
            return
        header = parse_header(frame)
        if header.api_key == API_VERSIONS:
            self._answer_api_versions(header, frame)
            return
        entry = self._entry_for(header)
        if entry is None:
            return
        self._last = entry
        server = self.server
        meter = server.meter
        began_ms = 0.0 if meter is None else self._spent.begin()
        request = decode_request(entry, header, frame)
        ctx = self._context(header)
        server.requests += 1
        charge = None
        if meter is not None:
            charge = Charge(meter, ctx, request, len(frame), server.now_ms, began_ms)
        try:
            if server.authorize is allow_all or server.authorize(ctx, entry.api):
                result = call(entry, request, ctx, server.on_fault)
            else:
                refusal = KafkaError(refusal_code(entry.api))
                result = refuse(entry, request, refusal, ctx, server.on_fault)
        except NoAnswerError as error:
            self.end("request.failed_unanswered", request=repr(ctx), error=str(error))
            return
        if charge is not None:
            charge.handled(result)
        if isinstance(result, Parked):
            turn = _Turn(self, entry, request, ctx, charge)
            turn.parked = result
            self._turns.append(turn)
            if header.api_key == FETCH:
                self._fetch = turn
            result.attach(turn.reply)
            if isinstance(result, Working):
                self._held = result.holds
                result.watch(self._on_released, turn.fail)
        elif self._turns:
            turn = _Turn(self, entry, request, ctx, charge)
            self._turns.append(turn)
            self.answer(turn, entry, request, ctx, result)
        else:
            if charge is not None:
                self._record_and_throttle(charge, result)
            self._send_now(entry, request, ctx, result)
            if charge is not None:
                self._spent.on_encoded(charge)

    def _record_and_throttle(self, charge: Charge, response: Message | None) -> None:
        """Meter a request that is being answered. A client that exceeds a quota is not read for its
        throttle time."""
        wait_ms = charge.record_and_throttle_ms(response)
        if wait_ms <= 0 or self._connection is None:
            return
        until_ms = self.server.now_ms() + wait_ms
        was_muted = self._muted_until_ms is not None
        self._muted_until_ms = max(self._muted_until_ms or 0.0, until_ms)
        if not was_muted:
            self._pause()
            self.server.ports.wakeups.call_at(until_ms, self._unmute)

    def _unmute(self) -> None:
        if self._connection is None or self._muted_until_ms is None:
            return
        if self.server.now_ms() < self._muted_until_ms:
            self.server.ports.wakeups.call_at(self._muted_until_ms, self._unmute)
            return
        self._muted_until_ms = None
        self.continue_reading()
        if self.server.meter is not None:
            self._spent.on_unmuted()

    def _serve_token(self, stage: TokenStage, frame: memoryview) -> None:
        answer = stage.on_raw_token(bytes(frame))
        if answer is not None:
            self._queue([SIZE.pack(len(answer)) + answer])

    def _on_released(self) -> None:
        self._held = False
        if self._backlog and not self._corked:
            self.continue_reading()

    def _entry_for(self, header: Header) -> ApiEntry | None:
        """The entry that serves the request; None where the connection was closed instead."""
        key, version = header.api_key, header.api_version
        authenticator, entry = self._authenticator, None
        if type(authenticator) is not Anonymous:
            entry = authenticator.entry(key)
            if self._connection is None:
                return None
        if entry is None:
            if authenticator.principal is None:
                self.end("connection.unauthenticated", api_key=key)
                return None
            entry = self.server.table.get(key)
        if entry is None:
            self.end("connection.unknown_api", api_key=key, api_version=version)
        elif not entry.min_version <= version <= entry.max_version:
            self.end("connection.unknown_version", api=entry.api.key.name, api_version=version)
        else:
            return entry
        return None

    def _context(self, header: Header) -> RequestContext:
        api_key, api_version, correlation_id, client_id, _ = header
        raw, text = self._client_id
        if client_id != raw or text is None:
            raw = client_id
            text = None if raw is None else java_text(raw)
            self._client_id = (raw, text)
        # Not by the constructor: its eleven keywords cost more than decoding most requests.
        ctx = _new_context(RequestContext)
        ctx.api_key = api_key
        ctx.api_version = api_version
        ctx.correlation_id = correlation_id
        ctx.client_id = text
        ctx.listener = self.server.listener
        ctx.principal = self._authenticator.principal or "User:ANONYMOUS"
        ctx.proof = self._authenticator.proof
        ctx.peer = self.peer
        ctx.connection_id = self.id
        ctx.connected_at_ms = self.connected_at_ms
        ctx.software = self.software
        return ctx

    def _answer_api_versions(self, header: Header, frame: memoryview) -> None:
        entry, ctx = api_versions.ENTRY, self._context(header)
        request: Any = None
        if header.api_version > entry.max_version or header.api_version < entry.min_version:
            response = api_versions.unsupported_version()
            ctx.api_version = 0
        else:
            request = decode_request(entry, header, frame)
            if ctx.api_version >= 3:
                self.software = f"{request.client_software_name} {request.client_software_version}"
            response = api_versions.answer(request, ctx, self.server.table, self.server.features())
        self.server.requests += 1
        if self._turns:
            turn = _Turn(self, entry, request, ctx)
            self._turns.append(turn)
            self.answer(turn, entry, request, ctx, response)
        else:
            self._send_now(entry, request, ctx, response)

    # -- responses -------------------------------------------------------------------------------

    def _send_now(
        self, entry: ApiEntry, request: Message, ctx: RequestContext, response: Message | None
    ) -> None:
        if response is None:
            return
        parts = encode_or_error(entry, request, response, ctx, self.server.on_fault)
        if parts is None:
            self.end("connection.unanswerable", request=repr(ctx))
        else:
            self._queue(parts)

    def _keep(self, size: int) -> None:
        self._kept_bytes += size
        self.server.unread.kept_bytes += size

    def _queue(self, parts: list[Buffer]) -> None:
        self._out += parts
        for part in parts:
            self._out_bytes += len(part)

    def answer(
        self,
        turn: _Turn,
        entry: ApiEntry,
        request: Message,
        ctx: RequestContext,
        response: Message | None,
    ) -> None:
        """Take the response of the request `turn`, and send all responses that no earlier request delays."""
        if self._connection is None:
            return
        if turn.charge is not None:
            self._record_and_throttle(turn.charge, response)
        if response is not None:
            turn.parts = encode_or_error(entry, request, response, ctx, self.server.on_fault)
            if turn.parts is None:
                self.end("connection.unanswerable", request=repr(ctx))
                return
        if turn.charge is not None:
            self._spent.on_encoded(turn.charge)
        turn.done = True
        if turn is self._fetch:
            self._fetch = None
        turns = self._turns
        if turns[0] is not turn:
            self._keep(sum(map(len, turn.parts or ())))
        while turns and turns[0].done:
            first = turns.popleft()
            if first is not turn:
                self._keep(-sum(map(len, first.parts or ())))
            self._queue(first.parts or [])
        if turns and turns[0] is self._fetch and turns[0].parked is not None:
            turns[0].parked.hurry()
        if self._corked:
            return
        if self._out:
            self._flush()
        if self._paused:
            self.continue_reading()

    def _flush(self, force: bool = False) -> None:
        if self._out and self._connection is not None and (force or not self._corked):
            parts, self._out = self._out, []
            self._burst_bytes, self._out_bytes = self._burst_bytes + self._out_bytes, 0
            self._connection.send(parts)
            self.last_active_ms = self.server.now_ms()
            if self.server.meter is not None:
                self._spent.on_sent()
