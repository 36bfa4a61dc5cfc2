"""One connection of a listener: its requests, and their responses in the same order. Sans-IO.

Every frame passes `ServerConnection._on_frame`: it is served, or waits in the backlog. The connection's
`Stage` chooses the function that serves it (`READERS`), its `Intake` says whether it may be served now.

A connection serves no request that must not overtake one under way: none behind a `Working` request that
holds, and no second request of an API that waits (`Api.waits`). The connection also bounds what a peer can
make this node hold: frame size, requests in flight, response bytes that the peer has not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import MethodType
from typing import Any, Protocol, cast

from barnabas.ports import Connection, Ports
from barnabas.types import Buffer, Endpoint
from barnabas.wire import api_versions
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import MalformedError
from barnabas.wire.connection.authenticator import Anonymous, Authenticator, TokenStage
from barnabas.wire.connection.peer import RequestPeer
from barnabas.wire.connection.response_queue import RequestTurn, ResponseQueue
from barnabas.wire.connection.states import (
    INTAKE_MOVES,
    OPEN_STAGES,
    STAGE_MOVES,
    Intake,
    Stage,
)
from barnabas.wire.connection.unread_responses import UnreadResponses
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
from barnabas.wire.request import Api, Parked, RequestContext, Working
from barnabas.wire.request_timing import RequestObserver, RequestTiming
from barnabas.wire.schema import Message

API_VERSIONS = int(ApiKey.API_VERSIONS)
FLUSH_BYTES = 256 * 1024
"""Responses to requests that were received together are sent together, up to this size."""
BURST_BYTES = 4 * 1024 * 1024
"""Responses that one connection gets in one turn of the loop; its further requests wait for a later turn."""

_READING, _PAUSED, _THROTTLED = Intake.READING, Intake.PAUSED, Intake.THROTTLED

Authorize = Callable[[RequestContext, Api], bool]


def allow_all(ctx: RequestContext, api: Api) -> bool:
    return True


class ConnectionBounds(Protocol):
    """Bounds of one connection (`barnabas.wire.server.ServerLimits`)."""

    @property
    def request_max_bytes(self) -> int: ...
    @property
    def in_flight_max(self) -> int: ...
    @property
    def unsent_max_bytes(self) -> int: ...


class ConnectionOwner(Protocol):
    """A connection's listener (`barnabas.wire.server.RequestServer`)."""

    ports: Ports
    now_ms: Callable[[], float]
    listener: str
    table: ApiTable
    features: api_versions.FeatureSource
    identity: api_versions.NodeIdentity | None
    authenticator: Callable[[ServerConnection], Authenticator]
    authorize: Authorize
    meter: RequestMeter | None
    observer: RequestObserver | None
    requests: int
    unread: UnreadResponses

    @property
    def limits(self) -> ConnectionBounds: ...
    def opened(self, connection: ServerConnection) -> None: ...
    def closed(self, connection: ServerConnection) -> None: ...
    def on_fault(self, ctx: RequestContext, error: BaseException) -> None: ...


class ServerConnection:
    """One connection. `in_flight` is the number of its requests whose response is not sent yet."""

    def __init__(self, server: ConnectionOwner, connection_id: int) -> None:
        self.id = connection_id
        self.server = server
        self._limits = server.limits
        self.last_active_ms = 0.0
        self.stage = Stage.CONNECTING
        self.intake = _READING
        self._read: Callable[[memoryview], None] = MethodType(_drop, self)
        """The function that serves a frame, by the stage."""
        self._connection: Connection | None = None
        self._peer = RequestPeer(connection_id, server.listener)
        self.tokens: TokenStage | None = None
        """The authenticator, if it is a `TokenStage`; else None."""
        self._frames = FrameReader(self._on_frame, server.limits.request_max_bytes)
        self.get_buffer = self._frames.get_buffer
        self._backlog: deque[memoryview] = deque()
        """Frames that wait. Only a connection that is PAUSED or THROTTLED has any."""
        self._arrivals: deque[float] = deque()
        """When they came."""
        self._arrived_ms = 0.0
        """When the request came that is served."""
        self.responses = ResponseQueue(server.unread)
        self._waiting_turn: RequestTurn | None = None
        """The request without an answer whose API waits for something to tell. The next one of this API
        waits for it: fetch responses are the largest, and its response would be held in memory until the
        first one is sent."""
        self._waiting_key = b""
        """The first bytes of each request of that API."""
        self._working: Working | None = None
        """The request in progress that no other request may overtake."""
        self._throttled_until_ms = 0.0
        """The end of the throttle time, while the intake is THROTTLED."""
        self._spent = Spent(server.now_ms, server.ports.wakeups.callback_began_ms)
        self._last_entry: ApiEntry | None = None

    def __repr__(self) -> str:
        return (
            f"ServerConnection({self.id} {self.peer} on {self.server.listener},"
            f" {self.stage.value}, {self.intake.value})"
        )

    @property
    def peer(self) -> Endpoint:
        return self._peer.endpoint

    @property
    def doing(self) -> str:
        """The last request's API, for logs."""
        return (
            self._last_entry.api.key.name if self._last_entry is not None else type(self).__name__
        )

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def in_flight(self) -> int:
        return len(self.responses.turns)

    @property
    def kept_bytes(self) -> int:
        """The size of the responses that wait for an earlier one."""
        return self.responses.kept_bytes

    @property
    def waits_for_handler(self) -> bool:
        """Whether the connection is silent because of this node: it throttles it or has yet to answer."""
        return self.intake is _THROTTLED or any(not turn.done for turn in self.responses.turns)

    def validate(self) -> None:
        """Raises AssertionError where a field contradicts the states. For tests and the simulator, between
        two turns of the loop."""
        self.responses.validate()
        is_open = self.stage in OPEN_STAGES
        assert is_open == (self._connection is not None), f"{self!r} has the wrong stream"
        if not is_open:
            return
        has_principal = self._peer.authenticator.principal is not None
        assert has_principal == (self.stage is not Stage.AUTHENTICATING), f"{self!r}: wrong stage"
        assert not self._backlog or self.intake is not _READING, f"{self!r} reads on"
        assert not self.responses.is_corked, f"{self!r} is corked outside its turn"
        assert not self.responses.queued, f"{self!r} has not sent what is queued"
        waiting = self._waiting_turn
        if waiting is not None:
            assert waiting in self.responses.turns, f"{self!r} waits for an answered request"
            assert not waiting.done and waiting.entry.api.waits, f"{self!r}: {waiting.ctx}"
        assert self._working is None or self._working.holds, (
            f"{self!r} waits for a released request"
        )

    # -- states ----------------------------------------------------------------------------------

    def _enter(self, stage: Stage) -> None:
        assert stage in STAGE_MOVES[self.stage], f"{self!r} may not become {stage.value}"
        self.stage = stage
        self._read = MethodType(READERS[stage], self)

    def _set_intake(self, intake: Intake) -> None:
        assert intake in INTAKE_MOVES[self.intake], f"{self!r} may not become {intake.value}"
        former, self.intake = self.intake, intake
        if self._connection is not None:
            if former is _READING:
                self._connection.pause_reading()
            elif intake is _READING:
                self._connection.resume_reading()

    # -- ports.Receiver --------------------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        peer = self._peer
        peer.endpoint = connection.peer
        self.last_active_ms = peer.connected_at_ms = self.server.now_ms()
        self.server.opened(self)
        authenticator = peer.authenticator = self.server.authenticator(self)
        if authenticator.principal is None:
            tokens = self.tokens = cast("TokenStage", authenticator)
            size = min(tokens.frame_bytes_max, self._limits.request_max_bytes)
            self._frames.max_frame_bytes = size
        if self.stage is Stage.CONNECTING:
            self._enter(Stage.IDENTIFIED if self.tokens is None else Stage.AUTHENTICATING)

    @property
    def transport(self) -> Connection | None:
        """The stream below; None once it has ended."""
        return self._connection

    @property
    def principal(self) -> str | None:
        return self._peer.authenticator.principal

    def on_authenticated(self) -> None:
        """Called by the authenticator when there is a principal: the usual limit of request size now
        applies."""
        self._frames.max_frame_bytes = self._limits.request_max_bytes
        self._enter(Stage.AUTHENTICATED)

    def buffer_updated(self, size: int) -> None:
        if self._connection is None:
            return
        responses = self.responses
        self.last_active_ms = self._arrived_ms = self.server.now_ms()
        responses.is_corked, responses.burst_bytes = True, 0
        try:
            self._frames.buffer_updated(size)
        except MalformedError as error:
            self.end("connection.malformed", error=str(error))
        finally:
            responses.is_corked = False
        if responses.queued or responses.timings:
            self._flush()

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None
        self._enter(Stage.ENDED)
        if self.tokens is not None:
            self.tokens.on_closed()
        self.responses.abandon()
        self._waiting_turn = self._working = None
        self._backlog.clear()
        self._arrivals.clear()
        self.server.closed(self)

    # -- ending ----------------------------------------------------------------------------------

    def hold(self) -> None:
        """Read nothing before `continue_reading`."""
        if self._connection is not None and self.intake is _READING:
            self._set_intake(_PAUSED)

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
        self._enter(Stage.ENDING)
        if self.responses.queued:
            connection.send(self.responses.queued)
            self.responses.queued, self.responses.queued_bytes = [], 0
        connection.close()

    # -- requests --------------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        if self._backlog or self._must_wait(frame):
            self._backlog.append(frame)
            self._arrivals.append(self.last_active_ms)
            self._pause()
        else:
            self._read(frame)

    def _must_wait(self, frame: memoryview) -> bool:
        return (
            self._working is not None
            or self._is_full()
            or (self._waiting_turn is not None and frame[:2] == self._waiting_key)
        )

    def _is_full(self) -> bool:
        bounds, connection, responses = self._limits, self._connection, self.responses
        if len(responses.turns) >= bounds.in_flight_max or self.intake is _THROTTLED:
            return True
        if connection is None:
            return False
        if responses.queued_bytes > FLUSH_BYTES:
            self._flush(force=True)
        unsent_bytes = connection.unsent_bytes + responses.kept_bytes
        return (
            responses.burst_bytes > BURST_BYTES
            or unsent_bytes > bounds.unsent_max_bytes
            or (unsent_bytes > 0 and self.server.unread.are_too_many)
        )

    def _pause(self) -> None:
        if self._connection is None or self.intake is _THROTTLED:
            return
        if self.intake is _READING:
            self._set_intake(_PAUSED)
        if len(self.responses.turns) < self._limits.in_flight_max:
            self.server.unread.stall(self)  # the network does not report when bytes are taken: poll

    def continue_reading(self) -> None:
        """Serve the requests in the backlog, as far as the limits allow, and resume reading."""
        if self.intake is not _PAUSED or self._connection is None:
            return
        responses, backlog = self.responses, self._backlog
        was_corked, responses.is_corked, responses.burst_bytes = responses.is_corked, True, 0
        try:
            while backlog and self.is_open and not self._must_wait(backlog[0]):
                self._arrived_ms = self._arrivals.popleft()
                self._read(backlog.popleft())
        except MalformedError as error:
            self.end("connection.malformed", error=str(error))
        finally:
            responses.is_corked = was_corked
        self._flush()
        if backlog or self._is_full():
            self._pause()
        elif self.is_open:
            self._set_intake(_READING)

    def read_request(self, frame: memoryview) -> None:
        server, header = self.server, parse_header(frame)
        if header.api_key == API_VERSIONS:
            ctx = self._peer.context(header)
            asked, answer = api_versions.serve(
                header, frame, ctx, server.table, server.features, server.identity
            )
            if asked is not None:
                self._peer.note_software(asked, ctx.api_version)
            server.requests += 1
            self._respond(api_versions.ENTRY, asked, ctx, None, answer)
            return
        entry = self._entry_for(header)
        if entry is None:
            return
        self._last_entry = entry
        meter = server.meter
        began_ms = 0.0 if meter is None else self._spent.begin()
        timing, observer = None, server.observer
        if observer is not None:
            timing = RequestTiming(observer, header.api_key, self._arrived_ms, server.now_ms())
        request = decode_request(entry, header, frame)
        ctx = self._peer.context(header)
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
        if timing is not None:
            timing.handled(result, server.now_ms())
        if isinstance(result, Parked):
            self._park(RequestTurn(entry, request, ctx, charge, timing), result)
        else:
            self._respond(entry, request, ctx, charge, result, timing)

    # -- which API -------------------------------------------------------------------------------

    def _entry_for(self, header: Header) -> ApiEntry | None:
        """The entry that serves the request; None where the connection was closed instead."""
        key, version = header.api_key, header.api_version
        authenticator, entry = self._peer.authenticator, None
        if type(authenticator) is not Anonymous:
            entry = authenticator.entry(key)
            if self._connection is None:
                return None
        if entry is None:
            if self.stage is Stage.AUTHENTICATING:
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

    # -- responses -------------------------------------------------------------------------------

    def _park(self, turn: RequestTurn, parked: Parked) -> None:
        """The response of `turn` comes later, or is in `parked` already."""
        turn.parked = parked
        self.responses.turns.append(turn)
        if turn.entry.api.waits:
            self._waiting_turn, self._waiting_key = turn, key_bytes(turn.entry.api.key)
        parked.attach(partial(self._reply, turn))
        if isinstance(parked, Working):
            self._working = parked if parked.holds else None
            parked.watch(partial(self._on_released, parked), partial(self._fail, turn))

    def _respond(
        self,
        entry: ApiEntry,
        request: Any,
        ctx: RequestContext,
        charge: Charge | None,
        response: Message | None,
        timing: RequestTiming | None = None,
    ) -> None:
        """The handler has answered at once."""
        if self.responses.turns:
            turn = RequestTurn(entry, request, ctx, charge, timing)
            self.responses.turns.append(turn)
            self._answer(turn, response)
            return
        if charge is not None:
            self._record_and_throttle(charge, response, timing)
        parts: list[Buffer] | None = []
        if response is not None:
            parts = encode_or_error(entry, request, response, ctx, self.server.on_fault)
            if parts is None:
                self.end("connection.unanswerable", request=repr(ctx))
        if parts is not None:
            if timing is not None:
                timing.answered(request, response, self.server.now_ms())
            self.responses.put(parts, timing)
        if charge is not None:
            self._spent.on_encoded(charge)

    def _reply(self, turn: RequestTurn, response: Message | None) -> None:
        self._answer(turn, response)
        turn.parked = None

    def _fail(self, turn: RequestTurn, error: Exception) -> None:
        """The processing of a `Working` request raised `error`: answer with it."""
        try:
            response = answer_to(error, turn.entry, turn.request, turn.ctx, self.server.on_fault)
        except NoAnswerError as unanswered:
            self.end("request.failed_unanswered", request=repr(turn.ctx), error=str(unanswered))
        else:
            self._reply(turn, response)

    def _on_released(self, work: Working) -> None:
        if self._working is work:
            self._working = None
        if self._backlog and not self.responses.is_corked:
            self.continue_reading()

    def _answer(self, turn: RequestTurn, response: Message | None) -> None:
        """Take the response of the request `turn`, and send all responses that no earlier request delays."""
        if self._connection is None:
            return
        if turn.charge is not None:
            self._record_and_throttle(turn.charge, response, turn.timing)
        parts: list[Buffer] = []
        if response is not None:
            encoded = encode_or_error(
                turn.entry, turn.request, response, turn.ctx, self.server.on_fault
            )
            if encoded is None:
                self.end("connection.unanswerable", request=repr(turn.ctx))
                return
            parts = encoded
        if turn.charge is not None:
            self._spent.on_encoded(turn.charge)
        if turn is self._waiting_turn:
            self._waiting_turn = None
        if turn.timing is not None:
            turn.timing.answered(turn.request, response, self.server.now_ms())
        responses = self.responses
        responses.settle(turn, parts)
        turns, waiting = responses.turns, self._waiting_turn
        if turns and turns[0] is waiting and waiting.parked is not None:
            waiting.parked.hurry()
        if responses.is_corked:
            return
        if responses.queued or responses.timings:
            self._flush()
        if self.intake is _PAUSED:
            self.continue_reading()

    def _flush(self, force: bool = False) -> None:
        responses, connection = self.responses, self._connection
        if responses.queued and connection is not None and (force or not responses.is_corked):
            parts, responses.queued = responses.queued, []
            responses.burst_bytes += responses.queued_bytes
            responses.queued_bytes = 0
            connection.send(parts)
            self.last_active_ms = self.server.now_ms()
            if self.server.meter is not None:
                self._spent.on_sent()
        timings = responses.timings
        if timings and not responses.queued:
            responses.timings = []
            RequestTiming.sent(timings, self.server.now_ms())

    # -- throttling ------------------------------------------------------------------------------

    def _record_and_throttle(
        self, charge: Charge, response: Message | None, timing: RequestTiming | None
    ) -> None:
        """Meter a request that is being answered. A client that exceeds a quota is not read for its
        throttle time."""
        wait_ms = charge.record_and_throttle_ms(response)
        if wait_ms <= 0 or self._connection is None:
            return
        if timing is not None:
            timing.throttle_ms = wait_ms
        until_ms = self.server.now_ms() + wait_ms
        if self.intake is _THROTTLED:
            self._throttled_until_ms = max(self._throttled_until_ms, until_ms)
            return
        self._throttled_until_ms = until_ms
        self._set_intake(_THROTTLED)
        self.server.ports.wakeups.call_at(until_ms, self._end_throttling)

    def _end_throttling(self) -> None:
        if self._connection is None:
            return
        if self.server.now_ms() < self._throttled_until_ms:
            self.server.ports.wakeups.call_at(self._throttled_until_ms, self._end_throttling)
            return
        self._set_intake(_PAUSED)
        self.continue_reading()
        if self.server.meter is not None:
            self._spent.on_unmuted()


def _drop(connection: ServerConnection, frame: memoryview) -> None:
    """The connection has ended: the frame came with earlier bytes."""


def _read_token(connection: ServerConnection, frame: memoryview) -> None:
    """Serve a token without a header, or a request."""
    tokens = connection.tokens
    if tokens is None or not tokens.takes_raw_tokens:
        connection.read_request(frame)
        return
    answer = tokens.on_raw_token(bytes(frame))
    if answer is not None:
        connection.responses.put([SIZE.pack(len(answer)) + answer])


READERS: Mapping[Stage, Callable[[ServerConnection, memoryview], None]] = {
    Stage.CONNECTING: _drop,
    Stage.AUTHENTICATING: _read_token,
    Stage.AUTHENTICATED: _read_token,
    Stage.IDENTIFIED: ServerConnection.read_request,
    Stage.ENDING: _drop,
    Stage.ENDED: _drop,
}
"""The function that serves a frame, for each stage."""


def key_bytes(key: ApiKey) -> bytes:
    """The first bytes of each request of an API."""
    return int(key).to_bytes(2, "big")
