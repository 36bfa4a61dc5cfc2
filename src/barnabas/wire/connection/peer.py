"""The peer of a connection, as far as it is known, and the context of each of its requests."""

from __future__ import annotations

from barnabas.types import Endpoint
from barnabas.wire.connection.authenticator import ANONYMOUS, Anonymous, Authenticator
from barnabas.wire.dispatch import Header
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.request import RequestContext
from barnabas.wire.text import java_text

NO_PEER = Endpoint("", 0)
_new_context = RequestContext.__new__


class RequestPeer:
    """The client at the other end of connection `connection_id`."""

    __slots__ = (
        "_client_id",
        "authenticator",
        "connected_at_ms",
        "connection_id",
        "endpoint",
        "listener",
        "software",
    )

    def __init__(self, connection_id: int, listener: str) -> None:
        self.connection_id = connection_id
        self.listener = listener
        self.endpoint = NO_PEER
        self.connected_at_ms = 0.0
        self.authenticator: Authenticator = Anonymous()
        self.software = ""
        """The client's name and version, as its ApiVersions request says them."""
        self._client_id: tuple[bytes | None, str | None] = (None, None)

    def note_software(self, request: ApiVersionsRequest, version: int) -> None:
        if version >= 3:
            name, number = request.client_software_name, request.client_software_version
            self.software = f"{name} {number}"

    def context(self, header: Header) -> RequestContext:
        """The context of the request with this header."""
        api_key, api_version, correlation_id, client_id, _ = header
        raw, text = self._client_id
        if client_id != raw or text is None:
            raw = client_id
            text = None if raw is None else java_text(raw)
            self._client_id = (raw, text)
        authenticator = self.authenticator
        # Not by the constructor: its eleven keywords cost more than decoding most requests.
        ctx = _new_context(RequestContext)
        ctx.api_key = api_key
        ctx.api_version = api_version
        ctx.correlation_id = correlation_id
        ctx.client_id = text
        ctx.listener = self.listener
        ctx.principal = authenticator.principal or ANONYMOUS
        ctx.proof = authenticator.proof
        ctx.peer = self.endpoint
        ctx.connection_id = self.connection_id
        ctx.connected_at_ms = self.connected_at_ms
        ctx.software = self.software
        return ctx
