"""The HTTP server, sans-IO: what is answered, what is refused, and what ends a connection."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import h11
import pytest

from barnabas.config.definition import ConfigError
from barnabas.monitoring.http import server as http
from barnabas.monitoring.http.listeners import parse_listeners
from barnabas.monitoring.http.messages import PLAIN, HttpRequest, HttpResponse, Respond
from barnabas.monitoring.http.server import ConnectionState, HttpConnection, HttpServer
from barnabas.types import Endpoint
from tests.unit.group.world import FakePorts

GET = b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n"


class Wire:
    """The other end of one connection."""

    peer = Endpoint("127.0.0.1", 1)
    unsent_bytes = 0
    """Bytes that the peer has not read."""

    def __init__(self, server: HttpServer) -> None:
        self.sent = b""
        self.is_closed = self.is_aborted = False
        self.reading = [True]
        """The last element says whether the server reads."""
        self.inside: HttpConnection = server.accept()
        self.inside.on_connected(self)

    def send(self, parts: Any) -> None:
        self.sent += b"".join(parts)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True
        self.inside.on_closed(None)

    def pause_reading(self) -> None:
        self.reading.append(False)

    def is_read(self) -> bool:
        return self.reading[-1]

    def resume_reading(self) -> None:
        self.reading.append(True)

    def feed(self, data: bytes) -> None:
        while data:
            buffer = self.inside.get_buffer()
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self.inside.buffer_updated(size)
            data = data[size:]

    def responses(self, method: str = "GET", count: int = 1) -> list[tuple[int, bytes, Any]]:
        """(status, body, header fields) of the answers to `count` requests."""
        client, found = h11.Connection(h11.CLIENT), []
        client.receive_data(self.sent)
        for _ in range(count):
            client.send(h11.Request(method=method, target="/page", headers=[("Host", "here")]))
            client.send(h11.EndOfMessage())
            body, response = b"", None
            while not isinstance(event := client.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Response):
                    response = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
            assert response is not None
            found.append((response.status_code, body, dict(response.headers)))
            if client.their_state is h11.DONE and client.our_state is h11.DONE:
                client.start_next_cycle()
        return found


class Routes:
    """One page, which answers at once, or later."""

    def __init__(self) -> None:
        self.is_late = False
        self.waiting: list[Respond] = []
        self.accepts: list[str] = []

    def page(self, request: HttpRequest, respond: Respond) -> None:
        self.accepts.append(request.accept)
        if self.is_late:
            self.waiting.append(respond)
        else:
            respond(HttpResponse(HTTPStatus.OK, PLAIN, [b"text"]))


@pytest.fixture
def ports() -> FakePorts:
    return FakePorts()


@pytest.fixture
def routes() -> Routes:
    return Routes()


def server(ports: FakePorts, routes: Routes, token: str = "", most: int = 16) -> HttpServer:
    return HttpServer(ports, {"/page": routes.page}, token, most)  # type: ignore[arg-type]


def test_a_page_is_served_again_and_again_on_one_connection(
    ports: FakePorts, routes: Routes
) -> None:
    wire = Wire(server(ports, routes))
    for _ in range(3):
        wire.feed(GET)
        ports.settle()
    assert [(code, body) for code, body, _ in wire.responses(count=3)] == [(200, b"text")] * 3
    assert not wire.is_closed


def test_requests_that_come_together_are_answered_in_order(
    ports: FakePorts, routes: Routes
) -> None:
    routes.is_late = True
    wire = Wire(server(ports, routes))
    wire.feed(GET + GET)
    assert len(routes.waiting) == 1
    routes.waiting.pop()(HttpResponse(HTTPStatus.OK, PLAIN, [b"first"]))
    ports.settle()
    routes.waiting.pop()(HttpResponse(HTTPStatus.OK, PLAIN, [b"second"]))
    assert [body for _, body, _ in wire.responses(count=2)] == [b"first", b"second"]


def test_head_has_the_length_and_no_body(ports: FakePorts, routes: Routes) -> None:
    wire = Wire(server(ports, routes))
    wire.feed(GET.replace(b"GET", b"HEAD"))
    ((code, body, headers),) = wire.responses("HEAD")
    assert (code, body, headers[b"content-length"]) == (200, b"", b"4")


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"GET /other HTTP/1.1\r\nHost: here\r\n\r\n", 404),
        (b"POST /page HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /page HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET /page HTTP/1.1\r\n\r\n", 400),
        (b"\x00\x01\x02\x03\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nHost: here\r\nX: " + b"y" * 40_000, 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused_and_closed(
    ports: FakePorts, routes: Routes, request_bytes: bytes, code: int
) -> None:
    wire = Wire(server(ports, routes))
    wire.feed(request_bytes)
    ((status, body, _),) = wire.responses()
    assert (status, wire.is_closed) == (code, True)
    assert body.endswith(b"\n")
    assert not routes.accepts


@pytest.mark.parametrize(
    ("header", "code"),
    [(b"", 401), (b"Authorization: Bearer no\r\n", 401), (b"Authorization: bearer yes\r\n", 200)],
)
def test_a_token_is_asked_for(ports: FakePorts, routes: Routes, header: bytes, code: int) -> None:
    wire = Wire(server(ports, routes, token="yes"))
    wire.feed(b"GET /page HTTP/1.1\r\nHost: here\r\n" + header + b"\r\n")
    assert wire.responses()[0][0] == code


def test_one_connection_too_many_gets_a_sentence(ports: FakePorts, routes: Routes) -> None:
    full = server(ports, routes, most=2)
    first, _ = Wire(full), Wire(full)
    third = Wire(full)
    assert (third.responses()[0][0], third.is_closed) == (503, True)
    third.inside.on_closed(None)
    first.inside.on_closed(None)
    assert not Wire(full).is_closed


def test_a_silent_connection_is_closed(ports: FakePorts, routes: Routes) -> None:
    wire = Wire(server(ports, routes))
    wire.feed(GET[:10])
    ports.advance(http.PATIENCE_MS_MAX + 1)
    assert wire.is_aborted
    assert wire.inside.state is ConnectionState.CLOSED


def test_a_request_that_waits_keeps_little_of_what_follows(
    ports: FakePorts, routes: Routes
) -> None:
    routes.is_late = True
    wire = Wire(server(ports, routes))
    wire.feed(GET)
    assert not wire.is_read()
    wire.feed(GET * 1000)
    assert wire.is_aborted


def test_a_peer_that_reads_nothing_gets_one_answer(ports: FakePorts, routes: Routes) -> None:
    wire = Wire(server(ports, routes))
    wire.unsent_bytes = 10**9
    wire.feed(GET)
    ports.settle()
    assert not wire.is_read()
    assert len(routes.accepts) == 1
    wire.unsent_bytes = 0
    ports.advance(http.UNSENT_CHECK_MS)
    assert wire.is_read()
    wire.feed(GET)
    assert len(routes.accepts) == 2
    wire.unsent_bytes = 10**9
    ports.advance(http.PATIENCE_MS_MAX + 1)
    assert wire.is_aborted


def test_an_error_behind_a_head_has_its_sentence(ports: FakePorts, routes: Routes) -> None:
    wire = Wire(server(ports, routes))
    wire.feed(GET.replace(b"GET", b"HEAD"))
    ports.settle()
    wire.feed(b"\x00\r\n\r\n")
    assert wire.sent.endswith(b"\n") and b"no request that HTTP allows" in wire.sent


def test_an_answer_after_the_end_is_dropped(ports: FakePorts, routes: Routes) -> None:
    routes.is_late = True
    wire = Wire(server(ports, routes))
    wire.feed(GET)
    wire.inside.on_closed(None)
    routes.waiting.pop()(HttpResponse(HTTPStatus.OK, PLAIN, [b"late"]))
    assert not wire.sent


def test_addresses_are_urls_and_loopback_by_default() -> None:
    texts = ["http://:9404", "https://[::1]:1", "http://0.0.0.0:2/"]
    found = [(spec.host, spec.port, spec.protocol) for spec in parse_listeners(texts)]
    assert found == [
        ("127.0.0.1", 9404, "PLAINTEXT"),
        ("::1", 1, "SSL"),
        ("0.0.0.0", 2, "PLAINTEXT"),
    ]


@pytest.mark.parametrize(
    "text", ["localhost:9404", "http://h", "ftp://h:1", "http://h:x", "http://h:1/m"]
)
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.listeners"):
        parse_listeners([text])
