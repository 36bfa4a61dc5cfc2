"""One TLS stream by a peer of another library's making: half records, too many handshakes, large answers.

The peer is a bare ``ssl`` object whose bytes go in by hand.
"""

from __future__ import annotations

import ssl
from struct import pack

import pytest

from barnabas import limits
from barnabas.client.network.channels import ChannelError
from barnabas.security.tls_stream import JOINED_BYTES, SLICE_BYTES, TlsStream, joined_parts
from barnabas.types import Endpoint
from tests.unit.client.loopback import Stream
from tests.unit.security.test_connections import (
    AT,
    AUTHORITY,
    Scene,
    client_properties,
    frame,
    sasl,
)

RECORD_HEADER = 5
API_VERSIONS = frame(18, 0)


class Peer:
    """A TLS client of the listener of `scene`, and the bytes of both directions."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.stream = Stream(scene.world, Endpoint("peer", 1))
        self.receiver = self.stream.receiver = scene.world.listeners[AT]()
        context = ssl.create_default_context(cadata=AUTHORITY.pem)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=AT.host)
        self.receiver.on_connected(self.stream)

    def shake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.exchange()
            else:
                self.exchange()
                return

    def encrypt(self, data: bytes) -> bytes:
        """The records of `data`."""
        self.tls.write(data)
        return self.outgoing.read()

    def exchange(self) -> None:
        self.give(self.outgoing.read())
        self.take()

    def give(self, data: bytes) -> None:
        while data and not self.stream.ended:
            view = self.receiver.get_buffer()
            size = min(len(view), len(data))
            view[:size] = data[:size]
            data = data[size:]
            self.receiver.buffer_updated(size)
        self.scene.world.run()

    def take(self) -> list[int]:
        """The sizes of what the listener sent at a time; decrypted by `read`."""
        sizes = [len(part) for part in self.stream.unsent]
        for part in self.stream.unsent:
            self.incoming.write(part)
        self.stream.unsent.clear()
        return sizes

    def read(self) -> bytes:
        """All that has come."""
        found = bytearray()
        while True:
            try:
                found += self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                return bytes(found)

    def events(self) -> list[str]:
        return [event for _, event, _ in self.scene.world.lines]


def test_half_of_a_record_serves_nothing_until_the_rest_comes() -> None:
    scene = Scene("SSL")
    peer = Peer(scene)
    peer.shake()
    record = peer.encrypt(API_VERSIONS)
    peer.give(record[: len(record) // 2])
    scene.pass_ms(limits.AUTHENTICATION_MS_MAX + 1)
    assert not peer.take() and not peer.stream.ended  # a client that is known may rest
    peer.give(record[len(record) // 2 :])
    assert peer.take() and len(peer.read()) > 4


@pytest.mark.parametrize("ends", [RECORD_HEADER - 1, RECORD_HEADER, -1])
def test_a_peer_that_ends_within_a_record_leaves_nothing(ends: int) -> None:
    scene = Scene("SSL")
    peer = Peer(scene)
    peer.shake()
    peer.give(peer.encrypt(API_VERSIONS)[:ends])
    peer.stream.close()
    scene.world.run()
    assert not scene.server.connections and not scene.principals


@pytest.mark.parametrize(
    "record",
    [
        pack(">BHH", 23, 0x0303, 0xFFFF) + b"\0" * 64,  # longer than a record may be
        pack(">BHH", 23, 0x0303, 64) + b"\0" * 64,  # encrypted by another key
        pack(">BHH", 99, 0x0303, 4) + b"\0" * 4,  # of a type that there is not
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_record_end_the_connection(record: bytes) -> None:
    scene = Scene("SSL")
    peer = Peer(scene)
    peer.shake()
    peer.give(record)
    scene.world.run()
    assert peer.stream.ended and not scene.server.connections and not scene.principals


def test_a_handshake_by_single_bytes_has_its_time_in_all() -> None:
    scene = Scene("SSL")
    peer = Peer(scene)
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    hello = peer.outgoing.read()
    pause_ms = limits.AUTHENTICATION_MS_MAX / 10
    for byte in hello[:20]:
        peer.give(bytes([byte]))
        scene.pass_ms(pause_ms)
    assert peer.stream.ended and peer.events() == ["connection.tls_failed"]
    assert not len(scene.listeners.stages["EXT"].handshakes)


def test_handshakes_at_a_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKES_MAX", 3)
    scene = Scene("SSL")
    peers = [Peer(scene) for _ in range(5)]
    scene.world.run()
    assert [peer.stream.ended for peer in peers] == [False] * 3 + [True] * 2
    assert [fields["reason"] for _, _, fields in scene.world.lines] == [
        "too many handshakes are under way"
    ] * 2
    peers[0].shake()  # its place is free again
    late = Peer(scene)
    late.shake()
    assert not late.stream.ended


@pytest.mark.slow
def test_an_unknown_user_is_answered_at_the_moment_of_a_wrong_password() -> None:
    """By the clock that the delay is of: the exchange has as many messages, and none is answered sooner."""
    told = []
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        for user in ("a", "bob", "unknown"):
            scene = Scene("SASL_PLAINTEXT")
            asked = client_properties("SASL_PLAINTEXT", **sasl(mechanism, user, "x"))
            channels = scene.client(asked)
            scene.ask(channels)
            while not scene.answers:
                scene.pass_ms(1)
            (answer,) = scene.answers
            assert isinstance(answer, ChannelError)
            told.append((mechanism, scene.world.now, answer.message))
    assert len(set(told)) == 2, told


def test_a_large_answer_leaves_in_slices() -> None:
    """Each is encrypted and sent before the next one is: the library's buffer never has it all."""
    scene = Scene("SSL")
    peer = Peer(scene)
    peer.shake()
    peer.take()
    assert isinstance(peer.receiver, TlsStream)
    data = bytes(range(256)) * 8 * 1024  # 2 MiB
    peer.receiver.send((data[:100], data[100:], b"end"))
    sent = peer.take()
    assert len(sent) >= len(data) // SLICE_BYTES and max(sent) < 2 * SLICE_BYTES
    assert peer.read() == data + b"end"


def test_small_answers_leave_in_few_records_and_small_slices() -> None:
    """As of a client that has sent many requests at once."""
    scene = Scene("SSL")
    peer = Peer(scene)
    peer.shake()
    peer.take()
    assert isinstance(peer.receiver, TlsStream)
    parts = [b"%4d" % number * 25 for number in range(3_000)]
    peer.receiver.send(parts)
    sent = peer.take()
    assert max(sent) < 4 * JOINED_BYTES
    assert peer.read() == b"".join(parts)
    assert len(list(joined_parts(parts))) <= 300_000 // JOINED_BYTES + 1
    mixed = [b"a", b"b" * JOINED_BYTES, b"c", b"", b"d" * (JOINED_BYTES - 1), b"e"]
    assert [len(piece) for piece in joined_parts(mixed)] == [1, JOINED_BYTES, JOINED_BYTES, 1]
