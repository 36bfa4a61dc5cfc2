"""Streams of both worlds: bytes arrive in order and once, ends are reported once."""

from __future__ import annotations

import pytest

from barnabas.ports import ConnectionRefusal
from barnabas.types import Endpoint
from tests.contract.world.worlds import Recorder, World, listen, pair, world

__all__ = ["world"]


def test_a_listener_knows_its_port(world: World) -> None:
    listener = listen(world, Recorder)
    assert listener.endpoint.host == world.host
    assert listener.endpoint.port > 0


def test_parts_arrive_in_order_whatever_the_buffers(world: World) -> None:
    client, server = pair(world, room=7)
    client.send(b"abc", b"", memoryview(b"defghijklmnop"), bytearray(b"q"))
    client.send(b"r")
    world.until(lambda: len(server.received) == 18)
    assert server.received == b"abcdefghijklmnopqr"
    server.send(b"answer")
    world.until(lambda: client.received == b"answer")


def test_sending_never_blocks_and_what_is_not_taken_is_counted(world: World) -> None:
    client, server = pair(world, room=1 << 16)
    server.open_connection.pause_reading()
    block = bytes(range(256)) * 4096
    for _ in range(16):
        client.send(block[:100], block[100:])
    assert client.open_connection.unsent_bytes > 0
    assert not server.received
    server.open_connection.resume_reading()
    world.until(lambda: len(server.received) == 16 * len(block))
    assert bytes(server.received) == block * 16
    assert client.open_connection.unsent_bytes == 0


def test_close_sends_what_is_queued_first(world: World) -> None:
    client, server = pair(world, room=1 << 16)
    block = bytes(8 << 20)
    client.send(block)
    client.open_connection.close()
    assert client.ends == []
    world.until(lambda: bool(server.ends and client.ends))
    assert len(server.received) == len(block)
    assert (client.ends, server.ends) == ([None], [None])


def test_an_end_is_reported_once_and_not_from_inside_a_call(world: World) -> None:
    client, server = pair(world)
    client.open_connection.abort()
    client.open_connection.abort()
    client.open_connection.close()
    assert client.ends == []
    client.send(b"into the void")
    world.until(lambda: bool(client.ends and server.ends))
    assert (len(client.ends), len(server.ends)) == (1, 1)
    assert not server.received


def test_nothing_is_delivered_after_abort(world: World) -> None:
    server = Recorder(room=1, on_bytes=lambda me: me.open_connection.abort())
    client = Recorder()
    listener = listen(world, lambda: server)
    world.ports.network.connect(listener.endpoint, client)
    world.until(lambda: client.is_connected)
    client.send(b"many bytes")
    world.until(lambda: bool(server.ends))
    assert server.received == b"m"


def test_nothing_is_delivered_while_reading_is_paused(world: World) -> None:
    server = Recorder(room=1, on_bytes=lambda me: me.open_connection.pause_reading())
    client = Recorder()
    listener = listen(world, lambda: server)
    world.ports.network.connect(listener.endpoint, client)
    world.until(lambda: client.is_connected)
    client.send(b"abc")
    for expected in (b"a", b"ab", b"abc"):
        world.until(lambda expected=expected: server.received == expected)  # type: ignore[misc]
        server.open_connection.resume_reading()


def test_a_refused_connection_is_reported_as_refused(world: World) -> None:
    listener = listen(world, Recorder)
    listener.close()
    client = Recorder()
    world.ports.network.connect(listener.endpoint, client)
    assert client.ends == []
    world.until(lambda: bool(client.ends))
    assert isinstance(client.ends[0], ConnectionRefusedError)
    assert not client.is_connected


def test_a_taken_port_is_an_error_at_once(world: World) -> None:
    listener = listen(world, Recorder)
    with pytest.raises(OSError):
        world.ports.network.listen(listener.endpoint, Recorder)


def test_a_closed_listener_leaves_its_connections_and_its_port(world: World) -> None:
    server, client = Recorder(), Recorder()
    listener = listen(world, lambda: server)
    world.ports.network.connect(listener.endpoint, client)
    world.until(lambda: server.is_connected and client.is_connected)
    listener.close()
    client.send(b"still there")
    world.until(lambda: server.received == b"still there")
    assert world.ports.network.listen(listener.endpoint, Recorder).endpoint == listener.endpoint


class TwoGate:
    """Takes two connections at a time."""

    def __init__(self) -> None:
        self.open = 0

    def wait_ms(self) -> float:
        return 0.0

    def on_accepted(self, host: str) -> ConnectionRefusal | None:
        if self.open == 2:
            return ConnectionRefusal("two", 0.0)
        self.open += 1
        return None

    def on_ended(self, host: str) -> None:
        self.open -= 1


def test_a_gate_counts_connections_and_refuses_what_is_too_many(world: World) -> None:
    gate = TwoGate()
    listener = world.ports.network.listen(Endpoint(world.host, 0), Recorder, gate)
    clients = [Recorder() for _ in range(3)]
    for client in clients:
        world.ports.network.connect(listener.endpoint, client)
    world.until(lambda: any(client.ends for client in clients))
    assert gate.open == 2
    world.until(lambda: sum(client.is_connected and not client.ends for client in clients) == 2)
    next(client for client in clients if not client.ends).open_connection.close()
    world.until(lambda: gate.open == 1)
