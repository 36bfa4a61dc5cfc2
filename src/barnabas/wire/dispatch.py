"""From a request's frame to the response's frame: the table of APIs, headers, the call of a handler.

`ApiTable` has the APIs of a listener; `parse_header`, `decode_request` and `encode_response` convert
between bytes and values. Only `call` calls handlers; it turns an exception into an error response.
:class:`barnabas.wire.connection.server_connection.ServerConnection` and the controller's Envelope handler
(KIP-590) use it.

Does no I/O and keeps no state of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple, TypeAlias

from barnabas.types import Buffer, new_tuple
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.codec import (
    MalformedError,
    Splices,
    UnsupportedFieldError,
    decode_prefix,
    join,
    read_uvarint,
    skip_tags,
    write_into,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Api, HandlerModule, Parked, RequestContext, Resource
from barnabas.wire.schema import Message

Handler: TypeAlias = Callable[[Any, RequestContext, Any], Message | Parked | None]
OnFault: TypeAlias = Callable[[RequestContext, BaseException], None]
"""Called with an exception that no handler should raise; logs it with its traceback."""

_HEAD = Struct(">hhih")
_HEAD_SIZE = _HEAD.size
_RESPONSE_HEAD = Struct(">ii")
_API_VERSIONS = int(ApiKey.API_VERSIONS)


class NoAnswerError(Exception):
    """A request without a response (Produce with acks=0) failed: the connection must be closed, the only
    signal that the client can get."""


class ApiEntry(NamedTuple):
    """One API as a listener serves it."""

    api: Api
    handle: Handler
    role: Any
    min_version: int
    max_version: int
    first_flexible: int

    @property
    def advertised(self) -> tuple[int, int]:
        """(lowest, highest) version in ApiVersions responses."""
        return (0 if self.api.key == ApiKey.PRODUCE else self.min_version, self.max_version)


class ApiTable:
    """The APIs of one listener by key. ApiVersions is not in it: the connection answers it."""

    def __init__(self, entries: Iterable[ApiEntry] = ()) -> None:
        self._entries: dict[int, ApiEntry] = {}
        self.get = self._entries.get
        """The entry of an API key, or None."""
        self.advertised: list[Any] = []
        """This table in ApiVersions responses (`ApiVersion` structures), made at the first request; else
        empty."""
        for entry in entries:
            self._put(entry)

    def add(self, module: HandlerModule, role: Any) -> ApiTable:
        """Serve `module`'s API with `role` as its handler's third argument. Returns this table. Raises
        ``ValueError`` where the API has a handler already."""
        return self.add_handler(module.API, module.handle, role)

    def add_handler(self, api: Api, handle: Handler, role: Any) -> ApiTable:
        schema = API_SCHEMAS[api.key]
        self._put(
            ApiEntry(
                api, handle, role,
                schema.min_version, schema.max_stable_version, schema.first_flexible,
            )
        )  # fmt: skip
        return self

    def _put(self, entry: ApiEntry) -> None:
        if entry.api.key in self._entries:
            raise ValueError(f"{entry.api.key.name} has two handlers on one listener")
        self._entries[entry.api.key] = entry
        self.advertised = []

    def serve_unstable(self, key: int) -> None:
        """Serve an API of the table up to its last version, which the protocol's definition marks unstable
        (``latestVersionUnstable``)."""
        self._entries[key] = self._entries[key]._replace(max_version=API_SCHEMAS[key].max_version)
        self.advertised = []

    def replace(self, key: int, handle: Handler) -> None:
        """Replace the handler of an API in the table; its role stays the same."""
        self._entries[key] = self._entries[key]._replace(handle=handle)

    def guard(self, guarded: Callable[[ApiEntry], Handler]) -> None:
        """Replace the handler of each entry by ``guarded(entry)``."""
        for key, entry in list(self._entries.items()):
            self.replace(key, guarded(entry))

    def __iter__(self) -> Iterator[ApiEntry]:
        """Entries by ascending key."""
        return iter(sorted(self._entries.values(), key=lambda entry: entry.api.key))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"ApiTable({', '.join(entry.api.key.name for entry in self)})"


class Header(NamedTuple):
    """The header before every request's body; `client_id` is its raw bytes or None."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: bytes | None
    body_at: int
    """Position of the body in the frame; for an unknown API or version, as with a header of version 1."""


def parse_header(frame: memoryview) -> Header:
    """The request header, of version 1 or 2 as the API's version requires. Raises `MalformedError`."""
    try:
        key, version, correlation_id, size = _HEAD.unpack_from(frame)
        position = _HEAD_SIZE
        client_id = None
        if size >= 0:
            client_id = bytes(frame[position : position + size])
            position += size
            if position > len(frame):
                raise MalformedError("a request header claims a client id beyond its frame")
        elif size != -1:
            raise MalformedError(f"a request header claims a client id of {size} bytes")
        schema = API_SCHEMAS.get(key)
        if schema is not None and schema.first_flexible <= version <= schema.max_version:
            position += 1
            if frame[position - 1]:
                tags, position = read_uvarint(frame, position - 1)
                position = skip_tags(frame, position, tags)
    except (StructError, IndexError) as error:
        raise MalformedError(f"a request header ends early: {error}") from error
    return new_tuple(Header, (key, version, correlation_id, client_id, position))


def decode_request(entry: ApiEntry, header: Header, frame: memoryview) -> Message:
    """The request in the frame's body. Raises `MalformedError`."""
    api, version = entry.api, header.api_version
    # Bytes after the body are ignored, as in Apache Kafka: librdkafka 2.x sends three after Metadata v13.
    message, _ = decode_prefix(api.request, version, frame, header.body_at)
    return message


def encode_response(
    entry: ApiEntry, response: Message, version: int, correlation_id: int
) -> list[Buffer]:
    """The frame of a response: size, header (version 1 where the body is flexible), body. Raises
    `UnsupportedFieldError`."""
    flexible = version >= entry.first_flexible and entry.api.key != _API_VERSIONS
    out = bytearray(9 if flexible else 8)
    splices: Splices = []
    write_into(response, version, out, splices)
    size = len(out) - 4
    for _, part in splices:
        size += len(part)
    _RESPONSE_HEAD.pack_into(out, 0, size, correlation_id)
    return join(out, splices) if splices else [out]


def call(
    entry: ApiEntry, request: Message, ctx: RequestContext, on_fault: OnFault
) -> Message | Parked | None:
    """The handler's answer. If the handler raises, the answer is the API's error response.

    Raises `NoAnswerError` where the API has no error response to this request.
    """
    try:
        return entry.handle(request, ctx, entry.role)
    except Exception as error:  # noqa: BLE001 - a fault of one handler ends neither node nor connection
        return answer_to(error, entry, request, ctx, on_fault)


def answer_to(
    error: Exception, entry: ApiEntry, request: Message, ctx: RequestContext, on_fault: OnFault
) -> Message:
    """The response to a request whose handler raised `error`. Raises `NoAnswerError`."""
    if not isinstance(error, KafkaError):
        on_fault(ctx, error)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return refuse(entry, request, error, ctx, on_fault)


_REFUSALS: dict[Resource, ErrorCode] = {
    "topic": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "transactional-id": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "delegation-token": ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def refusal_code(api: Api) -> ErrorCode:
    """The error of a request that its sender may not make."""
    return _REFUSALS.get(api.resource, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def refuse(
    entry: ApiEntry, request: Message, error: KafkaError, ctx: RequestContext, on_fault: OnFault
) -> Message:
    """The API's response that carries `error`. Raises `NoAnswerError`."""
    try:
        response = entry.api.error_response(request, error.code, error.message)
    except Exception as fault:  # noqa: BLE001 - logged as any other fault
        on_fault(ctx, fault)
        response = None
    if response is None:
        raise NoAnswerError(str(error))
    return response


def encode_or_error(
    entry: ApiEntry, request: Message, response: Message, ctx: RequestContext, on_fault: OnFault
) -> list[Buffer] | None:
    """Encode as `encode_response` does. If the response cannot be written in its version, that is logged
    as the handler's fault, and an error response is written instead; None if that cannot be written,
    either."""
    try:
        return encode_response(entry, response, ctx.api_version, ctx.correlation_id)
    except UnsupportedFieldError as error:
        on_fault(ctx, error)
    try:
        unknown = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        substitute = refuse(entry, request, unknown, ctx, on_fault)
        return encode_response(entry, substitute, ctx.api_version, ctx.correlation_id)
    except NoAnswerError:
        return None
    except UnsupportedFieldError as error:
        on_fault(ctx, error)
        return None
