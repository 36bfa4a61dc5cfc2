"""One connection to a broker or controller as its client: correlate, encode, decode. Sans-IO.

Owns the requests in flight of one stream. Requests go out in the order given and are matched by
correlation id; a peer answers in order, so a response to anything but the oldest request in
flight is a fault of the peer and ends the connection. Versions are negotiated by one ApiVersions
request where a request comes without a fixed version (KIP-511); until it is answered such
requests wait, in order, and all later ones behind them.

Each request ends exactly once: with its response or with a :class:`ChannelError`. Timers are
not here: the owner calls `expire`.

Source: Kafka's ``NetworkClient``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

from barnabas import __version__
from barnabas.client.network.authentication import Authentication
from barnabas.client.network.traffic import CarriedTraffic
from barnabas.ports import Connection, call_all
from barnabas.security import TlsHandshakeError
from barnabas.types import Buffer, Endpoint
from barnabas.wire.api_table import API_SCHEMAS, ApiKey, ApiSchema
from barnabas.wire.codec import (
    MalformedError,
    Splices,
    UnsupportedFieldError,
    decode,
    decode_prefix,
    join,
    read_uvarint,
    skip_tags,
    write_into,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.frames import FrameReader
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.schema import Message


class ChannelError(Exception):
    """A request that got no response. `kind` says why: refused, closed, timeout, unsupported,
    malformed, authentication or misrouted.

    refused: no process listens there, so the peer is gone and the request was never sent.
    authentication: the two sides did not agree who they are (TLS or SASL); never sent.
    misrouted: the peer is of another cluster, or another node, than this client meant; never sent.
    unsupported: the peer does not serve a version that can carry the request, or none can; never sent.
    The others leave open whether the peer acted on it.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


OnDone: TypeAlias = Callable[[Any], None]
"""Gets the response message, or a `ChannelError`."""
VersionRanges: TypeAlias = dict[int, tuple[int, int]]
NO_BOUNDS: Mapping[int, int] = {}

_HEAD = Struct(">ihhih")
_correlation_of = Struct(">i").unpack_from
_ERROR = Struct(">h")
_API_VERSIONS, _PRODUCE = int(ApiKey.API_VERSIONS), int(ApiKey.PRODUCE)
API_VERSIONS_VERSION = 5
API_VERSIONS_BYTES_KEPT = 4096
"""An answer to ApiVersions up to this size is read once. That of a node has some 600."""
SOFTWARE_NAME = "barnabas"
SOFTWARE_VERSION = __version__

_response_classes: dict[int, type[Message]] = {}


def response_class(key: int) -> type[Message]:
    """The class of `key`'s responses; imported on first use."""
    found = _response_classes.get(key)
    if found is None:
        schema = API_SCHEMAS[key]
        module = import_module(f"barnabas.wire.messages.{schema.response_module}")
        found = getattr(module, f"{schema.name}Response")
        _response_classes[key] = found
    return found


@lru_cache(maxsize=64)
def _read_api_versions(version: int, body: bytes) -> ApiVersionsResponse:
    """Cached: every connection begins with this response, and nodes that run the same program send equal
    ones. The caller must not change it."""
    return decode(ApiVersionsResponse, version, body)


class InFlight:
    """One request of a connection, sent or waiting to be."""

    __slots__ = (
        "answer",
        "at_most",
        "correlation_id",
        "deadline_ms",
        "on_done",
        "request",
        "schema",
        "version",
    )

    def __init__(
        self,
        request: Message,
        on_done: OnDone,
        deadline_ms: float,
        version: int | None,
        at_most: int | None = None,
    ) -> None:
        """`version` None: the highest that both sides serve, not above `at_most`."""
        self.request: Any = request  # None once sent
        self.answer = request.ANSWER
        self.schema: ApiSchema = API_SCHEMAS[request.API_KEY]
        self.on_done = on_done
        self.deadline_ms = deadline_ms
        self.version = version
        self.at_most = at_most
        self.correlation_id = -1

    def __repr__(self) -> str:
        return f"InFlight({self.schema.name} v{self.version} #{self.correlation_id})"


class ClientConnection:
    """One stream to `endpoint`. `on_end(self, error)` is called once when it is over."""

    def __init__(  # noqa: PLR0913 - a connection is made in two places
        self,
        endpoint: Endpoint,
        client_id: str,
        on_end: Callable[[ClientConnection, ChannelError], None],
        defer: Callable[[Callable[[], None]], None],
        *,
        versions: VersionRanges | None = None,
        newest: Mapping[int, int] = NO_BOUNDS,
        on_versions: Callable[[VersionRanges], None] | None = None,
        max_frame_bytes: int = 512 * 1024 * 1024,
        authentication: Authentication | None = None,
        meant: tuple[str, int] | None = None,
        traffic: CarriedTraffic | None = None,
    ) -> None:
        """`defer` runs a callback after the present one, so that no answer comes from within
        `submit`. `versions` spares the negotiation; `on_versions` gets what it brought. `newest` is
        the newest version to choose, by API key. `meant` is the cluster's and the node's id, where the
        client knows whom it means. `traffic` counts what the connection carries."""
        raw = client_id.encode()
        self.endpoint = endpoint
        self.versions = versions
        self._newest = newest
        self._chosen: dict[int, int] = {}
        """The version of each API asked for that follows from `versions`, which are set once."""
        self.is_open = False
        self.is_over = False
        self.ended_by_peer = False
        """Whether it was open and then ended without this side's doing."""
        self._defer = defer
        self._client_id = raw
        self._head = bytes(_HEAD.size) + raw
        """A request's header with its numbers yet to be filled in."""
        self._flexible_head = self._head + b"\x00"
        self._on_end = on_end
        self._on_versions = on_versions
        self._frames = FrameReader(self._on_frame, max_frame_bytes)
        self.get_buffer = self._frames.get_buffer
        self._connection: Connection | None = None
        self._waiting: deque[InFlight] = deque()
        self._sent: deque[InFlight] = deque()
        self._last_schema: ApiSchema | None = None
        self._next_correlation_id = 0
        self._negotiating = False
        self._meant = meant
        self._traffic = traffic or CarriedTraffic()
        self._authentication = authentication
        """SASL before the first request, and again before a session ends."""
        self._authenticating = False

    @property
    def doing(self) -> str:
        """The last answer, for people."""
        return (
            f"answer to {self._last_schema.name}"
            if self._last_schema is not None
            else "no answer yet"
        )

    def __repr__(self) -> str:
        state = "over" if self.is_over else "open" if self.is_open else "connecting"
        return f"ClientConnection({self.endpoint} {state} in_flight={self.in_flight})"

    @property
    def in_flight(self) -> int:
        return len(self._sent) + len(self._waiting)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes

    def next_deadline_ms(self) -> float | None:
        """The earliest deadline of a request in flight."""
        both = [item.deadline_ms for item in self._sent] + [
            item.deadline_ms for item in self._waiting
        ]
        return min(both, default=None)

    # -- requests --------------------------------------------------------------------------------

    def submit(self, item: InFlight) -> None:
        """Send, or keep until connected and negotiated. Requests keep their order."""
        if self.is_over:
            error = ChannelError("closed", f"the connection to {self.endpoint} has ended")
            self._defer(lambda: item.on_done(error))
            return
        self._waiting.append(item)
        if self.is_open and len(self._waiting) == 1:
            self._send_waiting()

    def _send_waiting(self) -> None:
        parts: list[Buffer] = []
        waiting = self._waiting
        if self._authentication is not None and (
            self._authenticating or self._authentication.is_due()
        ):
            self._authenticate()
            return
        while waiting:
            item = waiting[0]
            if item.version is None and self.versions is None:
                if not self._negotiating:
                    self._negotiate(API_VERSIONS_VERSION, parts)
                break
            waiting.popleft()
            unanswered = item.schema.key == _PRODUCE and item.request.acks == 0
            try:
                self._encode(item, parts)
            except ChannelError as error:
                self._defer(partial(item.on_done, error))
                continue
            if unanswered:
                self._defer(partial(item.on_done, None))
            else:
                self._sent.append(item)
        if parts and self._connection is not None:
            self._connection.send(parts)

    def _authenticate(self) -> None:
        """Begin, where it has not begun; what waits is sent once it is over."""
        authentication = self._authentication
        if authentication is None or self._authenticating:
            return
        deadline_ms = (
            self._waiting[0].deadline_ms if self._waiting else authentication.deadline_ms()
        )
        self._authenticating = True

        def ask(request: Message, version: int, then: OnDone) -> None:
            if self.is_over:
                return  # while a token was being obtained
            item = InFlight(request, then, deadline_ms, version)
            parts: list[Buffer] = []
            self._encode(item, parts)
            self._sent.append(item)
            if self._connection is not None:
                self._connection.send(parts)

        def done(problem: str | None) -> None:
            self._authenticating = False
            if problem is not None:
                text = f"{self.endpoint} does not let this client in: {problem}"
                self._end(ChannelError("authentication", text))
            elif self._waiting and self.is_open:
                self._send_waiting()

        authentication.begin(ask, done)

    def _negotiate(self, version: int, parts: list[Buffer]) -> None:
        self._negotiating = True
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        if self._meant is not None:
            request.cluster_id, request.node_id = self._meant
        deadline = self._waiting[0].deadline_ms
        item = InFlight(request, self._on_api_versions, deadline, version)
        self._encode(item, parts)
        self._sent.append(item)

    def _on_api_versions(self, response: ApiVersionsResponse | ChannelError) -> None:
        self._negotiating = False
        if isinstance(response, ChannelError):
            return  # the connection is over, and all that waits ends with it
        ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            parts: list[Buffer] = []
            highest = ranges.get(ApiKey.API_VERSIONS, (0, 0))[1]
            self._negotiate(min(highest, API_VERSIONS_VERSION - 1), parts)
            if self._connection is not None:
                self._connection.send(parts)
            return
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._meant is not None:
            cluster_id, node_id = self._meant
            text = f"{self.endpoint} is not node {node_id} of cluster {cluster_id}"
            self._end(ChannelError("misrouted", text))
            return
        if response.error_code != ErrorCode.NONE:
            self._end(ChannelError("unsupported", f"{self.endpoint} refused ApiVersions"))
            return
        self.versions = ranges
        if self._on_versions is not None:
            self._on_versions(ranges)
        self._send_waiting()

    def _encode(self, item: InFlight, parts: list[Buffer]) -> None:
        """Append the request's frame to `parts`; nothing of it where it cannot be written."""
        request, schema = item.request, item.schema
        assert request is not None
        version = item.version
        if version is None:
            version = self._chosen.get(schema.key)
            if version is None:
                version = self._chosen[schema.key] = self._version_for(schema)
            if item.at_most is not None and item.at_most < version:
                version = item.at_most
            item.version = version
        correlation_id = item.correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        client_id = self._client_id
        out = bytearray(self._flexible_head if version >= schema.first_flexible else self._head)
        splices: Splices = []
        try:
            write_into(request, version, out, splices)
        except (UnsupportedFieldError, UnicodeEncodeError) as error:
            raise ChannelError("unsupported", str(error)) from error
        size = len(out) - 4
        for _, part in splices:
            size += len(part)
        _HEAD.pack_into(out, 0, size, schema.key, version, correlation_id, len(client_id))
        item.request = None
        self._traffic.requests += 1
        self._traffic.bytes_out += size + 4
        if splices:
            parts += join(out, splices)
        else:
            parts.append(out)

    def _version_for(self, schema: ApiSchema) -> int:
        low, high = (self.versions or {}).get(schema.key, (0, -1))
        newest = self._newest.get(schema.key, schema.max_stable_version)
        version = min(high, newest)
        if version < max(low, schema.min_version):
            raise ChannelError(
                "unsupported",
                f"{self.endpoint} serves {schema.name} {low} to {high}, this client speaks"
                f" {schema.min_version} to {newest}",
            )
        return version

    # -- responses -------------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        if self.is_over:
            return
        if not self._sent:
            raise MalformedError("a response without a request")
        item = self._sent[0]
        self._traffic.responses += 1
        self._traffic.bytes_in += len(frame) + 4
        response = self._decode(item, frame)
        self._sent.popleft()
        self._last_schema = item.schema
        item.on_done(response)

    def _decode(self, item: InFlight, frame: memoryview) -> Message:
        schema, version = item.schema, item.version
        assert version is not None
        try:
            (correlation_id,) = _correlation_of(frame)
            position = 4
            if schema.key == _API_VERSIONS:
                (code,) = _ERROR.unpack_from(frame, 4)
                if code == ErrorCode.UNSUPPORTED_VERSION:
                    version = 0
            elif version >= schema.first_flexible:
                position = 5
                if frame[4]:
                    tags, position = read_uvarint(frame, 4)
                    position = skip_tags(frame, position, tags)
        except (StructError, IndexError) as error:
            raise MalformedError(f"a response header ends early: {error}") from error
        if correlation_id != item.correlation_id:
            raise MalformedError(f"response #{correlation_id} where {item!r} was next")
        if schema.key == _API_VERSIONS and len(frame) <= API_VERSIONS_BYTES_KEPT:
            return _read_api_versions(version, bytes(frame[position:]))
        cls = item.answer or _response_classes.get(schema.key) or response_class(schema.key)
        response, end = decode_prefix(cls, version, frame, position)
        if end != len(frame):
            raise MalformedError(f"{len(frame) - end} bytes follow the response to {item!r}")
        return response

    # -- ports.Receiver --------------------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        if self.is_over:
            connection.abort()
            return
        self.is_open = True
        self._send_waiting()

    def buffer_updated(self, size: int) -> None:
        if self.is_over:
            return
        try:
            self._frames.buffer_updated(size)
        except MalformedError as error:
            self._end(ChannelError("malformed", f"{self.endpoint}: {error}"))

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None
        was_open = self.ended_by_peer = self.is_open
        if isinstance(error, TlsHandshakeError):
            text = f"no TLS connection to {self.endpoint}: {error}"
            self._end(ChannelError("authentication", text))
        elif isinstance(error, ConnectionRefusedError):
            self._end(ChannelError("refused", f"no process listens at {self.endpoint}"))
        else:
            detail = f": {error}" if error is not None else ""
            text = f"the connection to {self.endpoint} ended{detail}"
            if not was_open:
                text = f"no connection to {self.endpoint}{detail}"
            self._end(ChannelError("closed", text))

    # -- ending ----------------------------------------------------------------------------------

    def postpone(self, by_ms: float) -> None:
        """Put off the deadlines of all requests: for so long no one could have read an answer."""
        for item in (*self._sent, *self._waiting):
            item.deadline_ms += by_ms

    def expire(self, now_ms: float) -> bool:
        """End the connection where a request's deadline has passed: a peer that owes an answer
        owes all behind it. Says whether it did."""
        deadline = self.next_deadline_ms()
        if deadline is None or deadline > now_ms or self.is_over:
            return False
        late = next(i for i in [*self._sent, *self._waiting] if i.deadline_ms <= now_ms)
        text = f"no answer from {self.endpoint} to {late.schema.name} in time"
        self._end(ChannelError("timeout", text))
        return True

    def close(self) -> None:
        self._end(ChannelError("closed", f"the connection to {self.endpoint} was closed here"))

    def _end(self, error: ChannelError) -> None:
        if self.is_over:
            return
        self.is_over, self.is_open = True, False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        ended = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        callbacks = (partial(item.on_done, error) for item in ended)
        call_all((partial(self._on_end, self, error), *callbacks))
