"""Envelope: a client's request that a broker forwards to the active controller, with its principal (KIP-590).

The envelope contains the frame of the client's request (header and body, without the size), its response
the frame of the client's response. The principal is two bytes of version and a DefaultPrincipalData. If the
controller is not active, the envelope's own error is NOT_CONTROLLER, whatever the inner response is, so that
the broker retries with another controller.

`wrap` and `unwrap` are the broker's half, `open_envelope` the controller's.

Source: Kafka's ``EnvelopeUtils``.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from ipaddress import ip_address
from struct import Struct

from barnabas.types import Endpoint
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.codec import (
    MalformedError,
    Splices,
    UnsupportedFieldError,
    decode,
    decode_prefix,
    encode_bytes,
    join,
    read_uvarint,
    skip_tags,
    write_into,
)
from barnabas.wire.dispatch import (
    ApiEntry,
    ApiTable,
    NoAnswerError,
    OnFault,
    call,
    decode_request,
    encode_or_error,
    parse_header,
)
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.default_principal_data import DefaultPrincipalData
from barnabas.wire.messages.envelope_request import EnvelopeRequest
from barnabas.wire.messages.envelope_response import EnvelopeResponse
from barnabas.wire.request import Parked, Proof, RequestContext
from barnabas.wire.schema import Message
from barnabas.wire.text import java_text

_HEAD = Struct(">hhih")
_PRINCIPAL_VERSION = Struct(">h")


def wrap(request: Message, ctx: RequestContext) -> EnvelopeRequest:
    """The envelope for `request`, which a client sent with the header, principal and address in `ctx`."""
    client_id = b"" if ctx.client_id is None else ctx.client_id.encode()
    size = -1 if ctx.client_id is None else len(client_id)
    out = bytearray(
        _HEAD.pack(request.API_KEY, ctx.api_version, ctx.correlation_id, size) + client_id
    )
    if ctx.api_version >= API_SCHEMAS[request.API_KEY].first_flexible:
        out.append(0)
    splices: Splices = []
    write_into(request, ctx.api_version, out, splices)
    return EnvelopeRequest(
        request_data=b"".join(join(out, splices)),
        request_principal=principal_bytes(ctx.principal, ctx.proof),
        client_host_address=address_bytes(ctx.peer.host),
    )


def unwrap(response: EnvelopeResponse, ctx: RequestContext) -> Message:
    """The inner response. Raises `KafkaError` with the envelope's own code (NOT_CONTROLLER: retry with
    another controller) or `MalformedError`."""
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        raise KafkaError(code_of(response.error_code), "the controller refused the envelope")
    schema = API_SCHEMAS[ctx.api_key]
    data = memoryview(response.response_data)
    position = 4
    try:
        if ctx.api_version >= schema.first_flexible:
            tags, position = read_uvarint(data, position)
            position = skip_tags(data, position, tags)
    except IndexError as error:
        raise MalformedError(f"a forwarded {schema.name} response ends early") from error
    module = import_module(f"barnabas.wire.messages.{schema.response_module}")
    cls: type[Message] = getattr(module, f"{schema.name}Response")
    inner, end = decode_prefix(cls, ctx.api_version, data, position)
    if end != len(data):
        raise MalformedError(f"{len(data) - end} bytes follow a forwarded {schema.name} response")
    return inner


def open_envelope(
    table: ApiTable, envelope: EnvelopeRequest, ctx: RequestContext, on_fault: OnFault
) -> EnvelopeResponse | Parked:
    """Call the handler in `table` for the inner request, with the envelope's principal."""
    frame = memoryview(envelope.request_data)
    try:
        header = parse_header(frame)
        entry = table.get(header.api_key)
        if entry is None or header.api_key == ApiKey.ENVELOPE:
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        if not entry.min_version <= header.api_version <= entry.max_version:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        request = decode_request(entry, header, frame)
        principal, proof = principal_of(envelope.request_principal)
        inner = RequestContext(
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=None if header.client_id is None else java_text(header.client_id),
            listener=ctx.listener,
            principal=principal,
            proof=proof,
            peer=Endpoint(host_of(envelope.client_host_address), 0),
            connection_id=ctx.connection_id,
            software=ctx.software,
        )
    except MalformedError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    try:
        result = call(entry, request, inner, on_fault)
    except NoAnswerError:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if not isinstance(result, Parked):
        return _seal(entry, request, result, inner, on_fault)
    outer = Parked()

    def reply(response: Message | None) -> None:
        outer.complete(_seal(entry, request, response, inner, on_fault))

    result.attach(reply)
    return outer


def _seal(
    entry: ApiEntry,
    request: Message,
    response: Message | None,
    ctx: RequestContext,
    on_fault: OnFault,
) -> EnvelopeResponse:
    if response is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if _says_not_controller(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    parts = encode_or_error(entry, request, response, ctx, on_fault)
    if parts is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return EnvelopeResponse(response_data=b"".join(parts)[4:])


def _says_not_controller(message: Message) -> bool:
    """Whether any error code of the response is NOT_CONTROLLER."""
    if getattr(message, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    for field in message.FIELDS:
        if field.struct is None:
            continue
        value = getattr(message, field.name)
        nested: Iterable[Message] = value if field.array else (value,)
        if value is not None and any(map(_says_not_controller, nested)):
            return True
    return False


def principal_bytes(principal: str, proof: Proof = Proof.OWN) -> bytes:
    """``User:name`` as Kafka's default principal serializer writes it."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=proof is Proof.TOKEN)
    return _PRINCIPAL_VERSION.pack(0) + encode_bytes(data, 0)


def principal_of(data: bytes | None) -> tuple[str, Proof]:
    """Inverse of `principal_bytes`. An unauthenticated peer becomes `Proof.OWN` here: the broker itself
    refuses requests for which that matters. Raises `KafkaError` PRINCIPAL_DESERIALIZATION_FAILURE."""
    try:
        if data is None or len(data) < 2:
            raise MalformedError("an envelope without a principal")
        (version,) = _PRINCIPAL_VERSION.unpack_from(data)
        decoded = decode(DefaultPrincipalData, version, memoryview(data)[2:])
    except (MalformedError, UnsupportedFieldError) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    proof = Proof.TOKEN if decoded.token_authenticated else Proof.OWN
    return f"{decoded.type}:{decoded.name}", proof


def host_of(address: bytes) -> str:
    """Inverse of `address_bytes`. Raises `KafkaError` INVALID_REQUEST."""
    try:
        return str(ip_address(bytes(address)))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no address of a client") from error


def address_bytes(host: str) -> bytes:
    """The 4 or 16 bytes of an IP address; those of 0.0.0.0 where `host` is not an IP address."""
    try:
        return ip_address(host).packed
    except ValueError:
        return bytes(4)
