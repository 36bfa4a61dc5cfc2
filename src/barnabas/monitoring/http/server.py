"""The HTTP server and its connections.

Bounds: the number of connections, the size of a request's head, the time until a request is
complete and the time between requests. A request has no body. A request that breaks a rule gets one
sentence, and its connection ends; the node continues.

Source: RFC 9110, RFC 9112; RFC 6750 for the token.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any

import h11

from barnabas.monitoring.http.messages import HttpRequest, HttpResponse, Route, problem
from barnabas.ports import Connection, Ports, Wakeup

HEAD_BYTES_MAX = 16 * 1024
"""The size of a request's head."""
READ_BYTES = 4 * 1024
CONNECTIONS_MAX = 16
"""The connections of one listener at a time; a further one gets an answer and is closed."""
PATIENCE_MS_MAX = 15_000
"""The longest time for each of three: until a request is complete, until it is answered, and until
the answer is read."""
UNSENT_CHECK_MS = 50
"""The interval of checks of a connection whose peer has not read its answer."""


class HttpServer:
    """The routes of a listener, and the token that a request must have. `accept` is the callback
    for `ports.network.listen`."""

    def __init__(
        self,
        ports: Ports,
        routes: Mapping[str, Route],
        token: str = "",
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """`token`: the bearer token that a request must have; empty if none is needed."""
        self.ports = ports
        self.routes = routes
        self.connections: dict[HttpConnection, None] = {}
        self._token = token.encode()
        self._connections_max = connections_max

    def accept(self) -> HttpConnection:
        return HttpConnection(self)

    @property
    def is_full(self) -> bool:
        """Whether a further connection would be one too many."""
        return len(self.connections) > self._connections_max

    def is_admitted(self, authorization: bytes) -> bool:
        """Whether the header field ``Authorization`` has the token."""
        if not self._token:
            return True
        scheme, _, shown = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), self._token)

    def close(self) -> None:
        """End all connections."""
        for connection in list(self.connections):
            connection.abort()


class ConnectionState(Enum):
    """The states of a connection."""

    READING = "reads a request"
    ANSWERING = "waits for its route's answer"
    CLOSING = "sends its last answer"
    CLOSED = "has ended"


class HttpConnection:
    """One connection: the ``ports.Receiver`` of its stream."""

    def __init__(self, server: HttpServer) -> None:
        self.state = ConnectionState.READING
        self._server = server
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._connection: Connection | None = None
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._is_head = False
        self._deadline: Wakeup | None = None

    def __repr__(self) -> str:
        return f"HttpConnection({self.state.value})"

    # -- ports.Receiver --------------------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        self._server.connections[self] = None
        self._wait()
        if self._server.is_full:
            sentence = "Too many connections ask for metrics."
            self._send(problem(HTTPStatus.SERVICE_UNAVAILABLE, sentence), is_last=True)

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        if self.state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            return
        try:
            self._protocol.receive_data(bytes(self._buffer[:size]))
            self._read()
            if len(self._protocol.trailing_data[0]) > HEAD_BYTES_MAX:
                self.abort()  # the peer sends on although reading is paused
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            self._send(
                problem(status, f"This is no request that HTTP allows: {error}"), is_last=True
            )

    def on_closed(self, error: OSError | None) -> None:
        self.state = ConnectionState.CLOSED
        self._server.connections.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    # -- a request, and its answer -----------------------------------------------------------------

    def _read(self) -> None:
        while self.state is ConnectionState.READING:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._take(event)
            elif isinstance(event, h11.ConnectionClosed):
                self.abort()

    def _take(self, request: h11.Request) -> None:
        headers = dict(request.headers)
        self._is_head = request.method == b"HEAD"
        if request.method not in (b"GET", b"HEAD"):
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are served here.")
            return
        if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "A request has no body here.")
            return
        if not self._server.is_admitted(headers.get(b"authorization", b"")):
            self._refuse(HTTPStatus.UNAUTHORIZED, "The bearer token is missing or wrong.")
            return
        path = request.target.partition(b"?")[0].decode("ascii", "replace")
        route = self._server.routes.get(path)
        if route is None:
            known = ", ".join(sorted(self._server.routes))
            self._refuse(HTTPStatus.NOT_FOUND, f"There is no such page; there are {known}.")
            return
        self.state = ConnectionState.ANSWERING
        assert self._connection is not None
        self._connection.pause_reading()
        accept = headers.get(b"accept", b"").decode("latin-1")
        route(HttpRequest(path, accept), self._answer)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(problem(status, sentence), is_last=True)

    def _answer(self, response: HttpResponse) -> None:
        if self.state is not ConnectionState.ANSWERING:
            return
        if self._send(response, is_last=False):
            self._is_head = False
            self._wait()
            self._server.ports.wakeups.call_soon(self._read_on)

    def _read_on(self) -> None:
        """Read a further request once the peer has the answer; it may have arrived together with
        the last one."""
        connection, ports = self._connection, self._server.ports
        if connection is None or self.state is not ConnectionState.READING:
            return
        if connection.unsent_bytes:
            ports.wakeups.call_at(ports.clock.now_ms() + UNSENT_CHECK_MS, self._read_on)
            return
        connection.resume_reading()
        try:
            self._read()
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            self._send(
                problem(status, f"This is no request that HTTP allows: {error}"), is_last=True
            )

    def _send(self, response: HttpResponse, *, is_last: bool) -> bool:
        """Send an answer, and return whether the connection reads a further request."""
        connection = self._connection
        if connection is None or self.state is ConnectionState.CLOSED:
            return False
        parts = self._encoded(response, is_last=is_last)
        if parts:
            connection.send(parts)
        if is_last or self._protocol.our_state is not h11.DONE:
            return self._end(connection)
        while self._protocol.their_state is h11.SEND_BODY:
            if self._protocol.next_event() is h11.NEED_DATA:
                break
        if self._protocol.their_state is not h11.DONE:
            return self._end(connection)
        self._protocol.start_next_cycle()
        self.state = ConnectionState.READING
        return True

    def _end(self, connection: Connection) -> bool:
        """Close the connection when everything is sent."""
        self.state = ConnectionState.CLOSING
        connection.close()
        return False

    def _encoded(self, response: HttpResponse, *, is_last: bool) -> list[bytes]:
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(sum(map(len, response.body)))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if is_last:
            headers.append(("Connection", "close"))
        if response.status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        events: list[Any] = [
            h11.Response(
                status_code=response.status, reason=response.status.phrase.encode(), headers=headers
            )
        ]
        if not self._is_head:
            events += [h11.Data(data=part) for part in response.body]
        events.append(h11.EndOfMessage())
        try:
            return [part for event in events if (part := self._protocol.send(event))]
        except h11.LocalProtocolError:
            return []  # the peer broke the rules too early for an answer

    # -- time ----------------------------------------------------------------------------------------

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        ports = self._server.ports
        at_ms = ports.clock.now_ms() + PATIENCE_MS_MAX
        self._deadline = ports.wakeups.call_at(at_ms, self._on_late)

    def _on_late(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self.state = ConnectionState.CLOSING
        if self._connection is not None:
            self._connection.abort()
