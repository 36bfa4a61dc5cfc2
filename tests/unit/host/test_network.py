"""Sockets behind the network port: bytes arrive in order and once, ends are reported once."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas import limits
from barnabas.config.node import NodeConfig
from barnabas.host import network
from barnabas.host.background import HostBackground
from barnabas.host.loop import new_loop
from barnabas.host.network import AS_THE_SYSTEM_SAYS, HostNetwork, SocketOptions
from barnabas.host.ports import HostPorts, connections_that_fit, socket_options
from barnabas.host.structured_log import StructuredLog
from barnabas.ports import Connection
from barnabas.security.quotas.connection_limits import (
    ConnectionLimits,
    ConnectionQuotas,
    ListenerLimits,
)
from barnabas.types import Buffer, Endpoint
from tests.unit.host.running import PATIENCE_S, run_until

LOOPBACK = Endpoint("127.0.0.1", 0)


class World:
    """A network on a loop that runs until a condition holds."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self.background = HostBackground(self.loop)
        self.lines: list[tuple[str, str]] = []
        self.reasons: list[str] = []
        self.network = HostNetwork(self.loop, self.background, self.log)
        self.faults: list[str] = []
        self.loop.set_exception_handler(lambda message, _: self.faults.append(message))

    def log(self, level: str, event: str, **fields: object) -> None:
        self.lines.append((level, event))
        if "reason" in fields:
            self.reasons.append(str(fields["reason"]))

    def until(self, condition: Callable[[], bool]) -> None:
        run_until(self.loop, condition)

    def close(self) -> None:
        self.network.abort_all()
        self.background.stop()
        self.loop.stop()
        self.loop.run_forever()
        self.loop.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


class Recorder:
    """A receiver that keeps what it receives."""

    def __init__(
        self, *, room: int = 64, on_bytes: Callable[[Recorder], None] | None = None
    ) -> None:
        self.connection: Connection | None = None
        self.received = bytearray()
        self.ends: list[OSError | None] = []
        self._buffer = bytearray(room)
        self._on_bytes = on_bytes

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, size: int) -> None:
        self.received += self._buffer[:size]
        if self._on_bytes is not None:
            self._on_bytes(self)

    def on_closed(self, error: OSError | None) -> None:
        self.ends.append(error)

    def send(self, *parts: Buffer) -> None:
        assert self.connection is not None
        self.connection.send(parts)


def pair(world: World, room: int = 64) -> tuple[Recorder, Recorder]:
    """A client and the server's side of its connection."""
    server, client = Recorder(room=room), Recorder(room=room)
    listener = world.network.listen(LOOPBACK, lambda: server)
    world.network.connect(listener.endpoint, client)
    world.until(lambda: server.is_connected and client.is_connected)
    return client, server


def test_parts_arrive_in_order_whatever_the_buffers(world: World) -> None:
    client, server = pair(world, room=7)
    client.send(b"abc", b"", memoryview(b"defghijklmnop"))
    client.send(b"q")
    world.until(lambda: len(server.received) == 17)
    assert server.received == b"abcdefghijklmnopq"
    server.send(b"answer")
    world.until(lambda: client.received == b"answer")


@pytest.mark.slow
def test_bytes_that_the_network_does_not_take_are_counted_and_sent_later(world: World) -> None:
    client, server = pair(world, room=1 << 16)
    assert server.connection is not None
    assert client.connection is not None
    server.connection.pause_reading()
    block = bytes(range(256)) * 4096
    for _ in range(16):
        client.send(block[:100], block[100:])
    assert client.connection.unsent_bytes > 0
    assert world.network.unsent_bytes == client.connection.unsent_bytes
    server.connection.resume_reading()
    world.until(lambda: len(server.received) == 16 * len(block))
    assert bytes(server.received) == block * 16
    assert client.connection.unsent_bytes == world.network.unsent_bytes == 0


def has_received(server: Recorder, size: int) -> bool:
    return len(server.received) == size


def test_free_memory_is_returned_once_most_of_a_burst_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[int] = []
    monkeypatch.setattr(limits, "FREED_BYTES_RETURNED", 24 << 20)
    monkeypatch.setattr("barnabas.host.network.RETURN_AFTER_S", 0.01)
    monkeypatch.setattr(
        "barnabas.host.network.return_free_memory",
        lambda: returned.append(world.network.unsent_bytes),
    )
    client, server = pair(world, room=1 << 20)
    assert server.connection is not None
    for size in (16 << 20, 48 << 20):
        expected = len(server.received) + size
        server.connection.pause_reading()
        client.send(bytes(size))
        assert world.network.unsent_bytes > 0 and not returned
        server.connection.resume_reading()
        world.until(partial(has_received, server, expected))
    world.until(lambda: bool(returned))
    assert len(returned) == 1 and returned[0] < 24 << 20


def test_bytes_queued_by_a_closed_connection_count_no_longer(world: World) -> None:
    client, server = pair(world, room=1 << 16)
    assert server.connection is not None
    assert client.connection is not None
    server.connection.pause_reading()
    client.send(bytes(32 << 20))
    assert world.network.unsent_bytes > 0
    client.connection.abort()
    assert world.network.unsent_bytes == 0


def test_close_sends_what_is_queued_first(world: World) -> None:
    client, server = pair(world, room=1 << 16)
    assert client.connection is not None
    block = bytes(8 << 20)
    client.send(block)
    client.connection.close()
    assert client.ends == []
    world.until(lambda: bool(server.ends))
    assert len(server.received) == len(block)
    assert (client.ends, server.ends) == ([None], [None])


def test_an_end_is_reported_once_and_not_from_inside_a_call(world: World) -> None:
    client, server = pair(world)
    assert client.connection is not None
    client.connection.abort()
    client.connection.abort()
    client.connection.close()
    assert client.ends == []
    client.send(b"into the void")
    world.until(lambda: bool(client.ends and server.ends))
    assert (len(client.ends), len(server.ends)) == (1, 1)


def test_nothing_is_delivered_after_abort(world: World) -> None:
    def abort(me: Recorder) -> None:
        assert me.connection is not None
        me.connection.abort()

    server = Recorder(room=1, on_bytes=abort)
    client = Recorder()
    listener = world.network.listen(LOOPBACK, lambda: server)
    world.network.connect(listener.endpoint, client)
    world.until(lambda: client.is_connected)
    client.send(b"many bytes")
    world.until(lambda: bool(server.ends))
    assert server.received == b"m"


def test_a_refused_connection_is_reported_as_refused(world: World) -> None:
    listener = world.network.listen(LOOPBACK, Recorder)
    listener.close()
    client = Recorder()
    world.network.connect(listener.endpoint, client)
    assert client.ends == []
    world.until(lambda: bool(client.ends))
    assert isinstance(client.ends[0], ConnectionRefusedError)


def test_a_reset_between_two_calls_on_a_new_connection_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is open where `SO_ERROR` is read and is gone where its peer's name is."""
    look = socket.socket.getsockopt
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def reset_after_look(sock: socket.socket, level: int, option: int) -> int:
            error = look(sock, level, option)
            other, _ = listening.accept()
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            other.close()
            reset = select.poll()
            reset.register(sock, 0)
            assert reset.poll(PATIENCE_S * 1000)
            return error

        monkeypatch.setattr(socket.socket, "getsockopt", reset_after_look)
        client = Recorder()
        world.network.connect(Endpoint("127.0.0.1", listening.getsockname()[1]), client)
        world.until(lambda: bool(client.ends))
    assert isinstance(client.ends[0], OSError)
    assert client.ends[0].errno == errno.ENOTCONN
    assert (client.is_connected, world.faults) == (False, [])


def test_the_end_closes_what_is_being_opened_too(world: World) -> None:
    """A listener with a full queue answers no connection."""
    with socket.socket() as silent, socket.socket() as first, socket.socket() as second:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for fills in (first, second):
            fills.setblocking(False)
            fills.connect_ex(silent.getsockname())
        before = os.listdir("/proc/self/fd")
        client = Recorder()
        world.network.connect(Endpoint("127.0.0.1", silent.getsockname()[1]), client)
        assert len(os.listdir("/proc/self/fd")) == len(before) + 1
        world.network.abort_all()
        assert os.listdir("/proc/self/fd") == before
        world.until(lambda: client.ends == [None])
    assert not client.is_connected


def test_a_socket_that_takes_no_option_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its peer has ended it between two looks: both sides hear of it, and no descriptor is left."""
    server, client = Recorder(), Recorder()
    listener = world.network.listen(LOOPBACK, lambda: server)

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(socket.socket, "setsockopt", refuse)
    world.network.connect(listener.endpoint, client)
    world.until(lambda: bool(client.ends) and bool(server.ends))
    assert isinstance(client.ends[0], OSError)
    assert not client.is_connected and not server.is_connected
    assert len(world.network) == 0 and not world.faults


def test_a_name_is_resolved_and_its_addresses_are_tried_in_turn(world: World) -> None:
    server, client = Recorder(), Recorder()
    listener = world.network.listen(LOOPBACK, lambda: server)
    world.network.connect(Endpoint("localhost", listener.endpoint.port), client)
    world.until(lambda: client.is_connected)
    assert client.connection is not None
    assert client.connection.peer.host == "localhost"


def test_an_unknown_name_ends_in_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # a server of names may be slow to say so
    client = Recorder()
    world.network.connect(Endpoint("no-such-host.invalid", 9), client)
    world.until(lambda: bool(client.ends))
    assert isinstance(client.ends[0], OSError)


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint("two..dots", 9),
        Endpoint("a\0b", 9),
        Endpoint("\ud800", 9),
        Endpoint("x" * 300, 9),
        Endpoint("127.0.0.1", 65536),
        Endpoint("localhost", 65536 + 9),
        Endpoint("127.0.0.1", 0),
        Endpoint("127.0.0.1", -1),
    ],
)
def test_an_invalid_address_ends_in_an_error(world: World, endpoint: Endpoint) -> None:
    """A node that registers says where it is."""
    client = Recorder()
    world.network.connect(endpoint, client)
    world.until(lambda: bool(client.ends))
    assert isinstance(client.ends[0], OSError) and not world.faults


def test_names_that_do_not_resolve_keep_no_job_from_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence, done = threading.Event(), list[object]()

    def resolve(endpoint: Endpoint) -> list[object]:
        silence.wait()
        return []

    monkeypatch.setattr(network, "_resolve", resolve)
    ports = HostPorts(world.loop, StructuredLog(level="error"))
    for number in range(2 * limits.BACKGROUND_THREADS_MAX):
        ports.network.connect(Endpoint(f"broker{number}.invalid", 9), Recorder())
    ports.background.run("raft-log", lambda: "synced", done.append)
    try:
        world.until(lambda: done == ["synced"])
    finally:
        silence.set()
        ports.stop()


def test_a_peer_of_ipv4_at_a_socket_of_both_goes_by_its_own_address(world: World) -> None:
    server, client = Recorder(), Recorder()
    quotas = ConnectionQuotas(lambda: world.loop.time() * 1000)
    try:
        at = Endpoint("::ffff:127.0.0.1", 0)
        listener = world.network.listen(at, lambda: server, quotas.gate("L"))
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    world.network.connect(Endpoint("127.0.0.1", listener.endpoint.port), client)
    world.until(lambda: server.is_connected and client.is_connected)
    assert server.connection is not None and server.connection.peer.host == "127.0.0.1"
    assert list(quotas.of_host) == ["127.0.0.1"]


def test_a_taken_port_is_one_sentence(world: World) -> None:
    listener = world.network.listen(LOOPBACK, Recorder)
    with pytest.raises(OSError, match=rf"port {listener.endpoint.port} of 127\.0\.0\.1 is already"):
        world.network.listen(listener.endpoint, Recorder)


def test_a_receiver_that_fails_loses_its_stream_only(world: World) -> None:
    def fail(me: Recorder) -> None:
        raise RuntimeError("a fault of the node")

    server, client = Recorder(on_bytes=fail), Recorder()
    listener = world.network.listen(LOOPBACK, lambda: server)
    world.network.connect(listener.endpoint, client)
    world.until(lambda: client.is_connected)
    client.send(b"x")
    world.until(lambda: bool(client.ends and server.ends))
    assert len(world.faults) == 1
    other = Recorder()
    world.network.connect(listener.endpoint, other)
    world.until(lambda: other.is_connected)


def test_a_receiver_without_room_loses_its_stream_only(world: World) -> None:
    def fail() -> memoryview:
        raise MemoryError("for a frame")

    client, server = pair(world)
    server.get_buffer = fail  # type: ignore[method-assign]
    client.send(b"x")
    world.until(lambda: bool(client.ends and server.ends))
    assert len(world.faults) == 1


def gated(
    world: World,
    limits: ConnectionLimits,
    address_rate: Callable[[str], float | None] = lambda host: None,
) -> tuple[ConnectionQuotas, Callable[[], Recorder]]:
    """The quotas of a listener, and what connects to it."""
    quotas = ConnectionQuotas(
        lambda: world.loop.time() * 1000, configured=limits, address_rate=address_rate
    )
    listener = world.network.listen(LOOPBACK, Recorder, quotas.gate("L"))

    def connect() -> Recorder:
        client = Recorder()
        world.network.connect(listener.endpoint, client)
        return client

    return quotas, connect


def test_connections_above_the_limit_are_closed_and_room_returns(world: World) -> None:
    quotas, connect = gated(world, ConnectionLimits(per_address=1))
    first = connect()
    world.until(lambda: quotas.of_host.total() == 1 and first.is_connected)
    second = connect()
    world.until(lambda: bool(second.ends))
    assert ("warning", "connection.refused") in world.lines
    assert world.reasons == ["max.connections.per.ip"]
    assert first.connection is not None
    first.connection.close()
    world.until(lambda: not quotas.of_host)
    connect()
    world.until(lambda: quotas.of_host.total() == 1)


def test_limits_hold_from_the_next_connection_on_when_they_change(world: World) -> None:
    quotas, connect = gated(world, ConnectionLimits(all=ListenerLimits(most=0)))
    refused = connect()
    world.until(lambda: bool(refused.ends))
    assert world.reasons == ["max.connections"]
    quotas.limits = ConnectionLimits()
    connect()
    world.until(lambda: quotas.of_host.total() == 1)


@pytest.mark.slow
def test_connections_come_as_slowly_as_they_are_configured_to(world: World) -> None:
    """max.connection.creation.rate: who is too quick waits and is not refused."""
    quotas, connect = gated(world, ConnectionLimits(all=ListenerLimits(per_second=4)))
    began_s = world.loop.time()
    for _ in range(7):
        connect()
    world.until(lambda: quotas.of_host.total() == 7)
    assert world.loop.time() - began_s >= 2 / 4  # a second's worth was saved up, and one is owed
    assert not world.lines


@pytest.mark.slow
def test_a_connection_beyond_the_rate_of_its_address_ends_later(world: World) -> None:
    """connection_creation_rate: a client that is refused at once would try again at once."""
    quotas, connect = gated(world, ConnectionLimits(), {"127.0.0.1": 2.0}.get)
    began_s = world.loop.time()
    clients = [connect() for _ in range(4)]
    world.until(lambda: any(client.ends for client in clients))
    assert world.loop.time() - began_s >= 0.3
    assert quotas.of_host["127.0.0.1"] == 3
    assert world.reasons == ["connection_creation_rate"]
    connect()
    connect()
    world.until(lambda: bool(world.network.put_off))
    world.network.abort_all()
    assert not world.network.put_off


def test_the_process_has_room_for_so_many_where_no_gate_is_asked(world: World) -> None:
    world.network.options = SocketOptions(capacity=0)
    listener = world.network.listen(LOOPBACK, Recorder)
    client = Recorder()
    world.network.connect(listener.endpoint, client)
    world.until(lambda: bool(client.ends))
    assert world.reasons == ["max.connections"]


def test_buffers_have_the_size_that_is_configured(world: World) -> None:
    """Linux doubles it for its own needs."""
    world.network.options = SocketOptions(send_bytes=9_000, receive_bytes=7_000)
    taken: list[socket.socket] = []
    adopt = world.network.adopt

    def keep(sock: socket.socket, *rest: Any) -> None:
        taken.append(sock)
        adopt(sock, *rest)

    world.network.adopt = keep  # type: ignore[assignment, method-assign]
    listener = world.network.listen(LOOPBACK, Recorder)
    with socket.create_connection(listener.endpoint):
        world.until(lambda: bool(taken))
    assert taken[0].getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 18_000
    assert taken[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 14_000


def test_socket_settings_of_the_file_hold() -> None:
    given = {
        "node.id": "1",
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "2@h:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/d",
        "socket.send.buffer.bytes": "1000",
        "socket.connection.setup.timeout.ms": "2000",
    }
    options = socket_options(NodeConfig.from_properties(given))
    assert (options.send_bytes, options.receive_bytes) == (1000, AS_THE_SYSTEM_SAYS)
    assert options.connect_timeout_ms == 2000


def test_a_reset_by_the_peer_is_an_error(world: World) -> None:
    server = Recorder()
    listener = world.network.listen(LOOPBACK, lambda: server)
    with socket.create_connection(listener.endpoint) as raw:
        world.until(lambda: server.is_connected)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    world.until(lambda: bool(server.ends))
    assert isinstance(server.ends[0], ConnectionResetError)


def test_the_longest_turn_is_measured(world: World) -> None:
    client, server = pair(world)
    world.loop.times.reset()
    client.send(b"x")
    world.until(lambda: server.received == b"x")
    assert world.loop.times.turns > 0
    assert 0 < world.loop.times.longest_s < PATIENCE_S


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [(150, 75), (4096, 2048), (65_536, 62_464), (resource.RLIM_INFINITY, limits.CONNECTIONS_MAX)],
)
def test_connections_leave_descriptors_to_files(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert connections_that_fit() == connections
