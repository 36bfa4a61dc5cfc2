"""Links over real sockets: what is whole, cut, delayed, limited, and what ends when."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing.faulty_node.network import CONNECTED, REFUSED, introduction
from barnabas.testing.links import CLIENT, Links
from barnabas.types import Endpoint

HOST = "127.0.0.1"
SILENT_S = 0.1
pytestmark = pytest.mark.slow


class Echo:
    """A server that answers everything with itself."""

    def __init__(self) -> None:
        self._listening = socket.create_server((HOST, 0))
        self.port = self._listening.getsockname()[1]
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            self.taken.append(taken)
            threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    @staticmethod
    def _answer(taken: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := taken.recv(65536):
                taken.sendall(data)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for taken in self.taken:
            with contextlib.suppress(OSError):
                taken.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.end()


@pytest.fixture
def links(tmp_path: Path, echo: Echo) -> Iterator[Links]:
    """Two nodes; clients and nodes find the echo at the first."""
    made = Links([1, 2], tmp_path)
    for node, port in ((1, echo.port), (2, 1)):
        (tmp_path / f"node-{node}").mkdir()
        text = f"listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{port + 1}\n"
        (tmp_path / f"node-{node}" / "server.properties").write_text(text)
    yield made
    made.close()


def as_client(links: Links, node: int) -> socket.socket:
    return socket.create_connection((HOST, links.advertised[node]), 10)


def as_node(links: Links, source: int, port: int) -> tuple[socket.socket, bytes]:
    """A connection of a node, and what the relay answers first."""
    connection = socket.create_connection((HOST, links.relay_port), 10)
    connection.sendall(introduction(source, Endpoint(HOST, port)))
    return connection, connection.recv(1)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return received(connection, len(data))


def received(connection: socket.socket, size: int) -> bytes:
    connection.settimeout(10)
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        assert part, found
        found += part
    return found


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENT_S)
    try:
        return connection.recv(1, socket.MSG_PEEK) is None
    except TimeoutError:
        return True


def test_clients_reach_a_node_at_its_advertised_port(links: Links) -> None:
    with as_client(links, 1) as connection:
        assert echoed(connection, b"hello") == b"hello"
        large = bytes(range(256)) * 4096
        assert echoed(connection, large) == large


def test_a_node_that_says_where_it_goes_gets_there_or_is_refused(links: Links, echo: Echo) -> None:
    connection, first = as_node(links, 2, echo.port)
    assert first == CONNECTED and echoed(connection, b"hello") == b"hello"
    connection.close()
    connection, first = as_node(links, 2, links.advertised[1])
    assert first == CONNECTED and echoed(connection, b"hello") == b"hello"
    connection.close()
    for port in (1, 9):  # no process listens there; no node has it
        connection, first = as_node(links, 1, port)
        assert first == REFUSED and connection.recv(1) == b""
        connection.close()


def test_a_cut_holds_back_both_ways_and_healing_delivers(links: Links, echo: Echo) -> None:
    with as_client(links, 1) as connection, as_node(links, 2, echo.port)[0] as other:
        assert echoed(connection, b"before") == b"before"
        links.cut(CLIENT, 1)
        connection.sendall(b"held up")
        echo.taken[0].sendall(b"from the server")
        assert is_silent(connection)
        assert echoed(other, b"another link") == b"another link"
        links.heal()
        assert sorted(received(connection, 22)) == sorted(b"held upfrom the server")


def test_an_end_is_not_seen_across_a_cut(links: Links, echo: Echo) -> None:
    with as_client(links, 1) as connection:
        assert echoed(connection, b"before") == b"before"
        links.cut(CLIENT, 1)
        echo.end()
        assert is_silent(connection)
        links.heal()
        connection.settimeout(10)
        assert connection.recv(1) == b""


def test_new_connections_wait_while_a_link_is_cut(links: Links, echo: Echo) -> None:
    links.isolate(2)
    connection = socket.create_connection((HOST, links.relay_port), 10)
    connection.sendall(introduction(2, Endpoint(HOST, echo.port)))
    assert is_silent(connection)
    links.heal()
    assert received(connection, 1) == CONNECTED
    connection.close()


def test_a_delay_is_there_and_back(links: Links) -> None:
    links.delay(CLIENT, 1, 0.1)
    with as_client(links, 1) as connection:
        began = time.monotonic()
        assert echoed(connection, b"later") == b"later"
        assert time.monotonic() - began >= 0.2


def test_a_limit_counts_the_bytes_of_both_ways(links: Links) -> None:
    links.limit(CLIENT, 1, 1_000_000)
    with as_client(links, 1) as connection:
        began = time.monotonic()
        assert echoed(connection, b"x" * 100_000) == b"x" * 100_000
        assert time.monotonic() - began >= 0.2


def test_bytes_that_a_limit_held_up_arrive_with_the_healing(links: Links) -> None:
    links.limit(CLIENT, 1, 10)
    with as_client(links, 1) as connection:
        connection.sendall(b"x" * 1000)
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        links.heal()
        connection.settimeout(10)
        assert connection.recv(1) == b"x", "1,000 bytes would have taken 100 s"


def test_a_node_that_is_none_is_refused(links: Links) -> None:
    with pytest.raises(KeyError):
        links.cut(1, 3)


def test_links_close_twice(links: Links) -> None:
    links.close()
    links.close()
    with pytest.raises(OSError):
        as_client(links, 1)
