"""100,000 random and mutated frames of strangers on a SASL listener: none is served, the listener lives.

``BARNABAS_FRAMES=10000000`` sends that many.
"""

from __future__ import annotations

import gc
import os
import resource
from collections import Counter
from collections.abc import Iterator
from random import Random
from struct import pack

import pytest

from barnabas import limits
from barnabas.types import Endpoint
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse
from tests.unit.client.loopback import Stream
from tests.unit.security.test_connections import AT, Scene, client_properties, sasl

FRAMES = int(os.environ.get("BARNABAS_FRAMES", "100000"))
FRAMES_OF_ONE_MAX = 12
BATCH = 200
"""Connections that are open at a time."""
KIB_MAX = 64 * 1024
EDGES = (0, 1, 3, 4, 7, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def request(key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
    head = pack(">hhih", key, version, 7, 1) + b"c" + (b"\0" if flexible else b"")
    return pack(">i", len(head) + len(body)) + head + body


def text(value: bytes) -> bytes:
    return pack(">h", len(value)) + value


def token(value: bytes) -> bytes:
    return pack(">i", len(value)) + value


def compact(value: bytes) -> bytes:
    return bytes((len(value) + 1,)) + value


TOKENS = (
    b"\0a\0wrong", b"a\0a\0wrong", b"\0nobody\0x", b"", b"\0\0", b"n,,n=bob,r=abcdef",
    b"n,a=bob,n=bob,r=abc", b"c=biws,r=abcdef,p=AAAA", b"n,,n=no=2Cone,r=a", b"y,,", b"\xff" * 60,
    b"n,,n=bob,r=" + b"x" * 4000, b"p=tls-unique,,n=bob,r=a",
)  # fmt: skip
HANDSHAKES = [
    request(17, version, text(name))
    for version in (0, 1)
    for name in (b"PLAIN", b"SCRAM-SHA-256", b"SCRAM-SHA-512", b"GSSAPI", b"", b"\xff\xfe")
]
FIRST = [
    *HANDSHAKES,
    request(18, 0, b""),
    request(18, 3, compact(b"lib") + compact(b"1.0") + b"\0", flexible=True),
    request(18, 99, b""),
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]
LATER = [
    *(token(each) for each in TOKENS),
    *(request(36, 0, token(each)) for each in TOKENS),
    *(request(36, 2, compact(each[:100]) + b"\0", flexible=True) for each in TOKENS),
    *(request(key, 0, b"\0" * 20) for key in (0, 1, 3, 19, 52, 58, 60, 75, 999)),
]


class Fuzzer:
    """Frames of a seed: as they should be, mutated, or nothing but noise."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def connection(self) -> list[bytes]:
        """What one stranger sends."""
        rng = self.rng
        count = rng.randrange(1, FRAMES_OF_ONE_MAX)
        frames = [rng.choice(FIRST)] + [rng.choice(LATER + FIRST) for _ in range(count)]
        return [frame if rng.random() < 0.6 else self.mutated(frame) for frame in frames]

    def mutated(self, frame: bytes) -> bytes:
        rng, data = self.rng, bytearray(frame)
        match rng.randrange(6):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                data = data[: rng.randrange(len(data))]
            case 2:
                data[0:4] = pack(">I", rng.choice(EDGES))
            case 3:
                at = rng.randrange(4, len(data)) if len(data) > 4 else 0
                data[at : at + 2] = pack(">H", rng.choice(EDGES) & 0xFFFF)
            case 4:
                at = rng.randrange(len(data))
                data[at:at] = rng.randbytes(rng.randrange(1, 40))
                data[0:4] = pack(">i", len(data) - 4)
            case _:
                noise = rng.randbytes(rng.randrange(200))
                data = bytearray(pack(">i", len(noise)) + noise)
        return bytes(data)


class Stranger:
    """A peer that never sends the right password, and sends on while it is read."""

    def __init__(self, scene: Scene, frames: list[bytes]) -> None:
        self.stream = Stream(scene.world, Endpoint("stranger", 1))
        self.receiver = self.stream.receiver = scene.world.listeners[AT]()
        self.receiver.on_connected(self.stream)
        self.waiting = bytearray()
        self.frames = frames
        self.sent = 0

    def send(self) -> None:
        """The next frame, as far as the server reads."""
        stream, waiting = self.stream, self.waiting
        if self.frames and not waiting and stream.reading:
            waiting += self.frames.pop(0)
            self.sent += 1
        while waiting and stream.reading and not stream.ended:
            view = self.receiver.get_buffer()
            size = min(len(view), len(waiting))
            view[:size] = waiting[:size]
            del waiting[:size]
            self.receiver.buffer_updated(size)
        stream.unsent.clear()

    @property
    def is_over(self) -> bool:
        return self.stream.ended or not (self.frames or self.waiting)


@pytest.fixture
def tidy_memory() -> Iterator[None]:
    """What was there before is no rubbish: connections that have ended are found quickly."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.usefixtures("tidy_memory")
def test_no_frame_before_authentication_breaks_the_listener() -> None:
    scene, fuzzer = Scene("SASL_PLAINTEXT"), Fuzzer(27)
    stage = scene.listeners.stages["EXT"].sasl
    assert stage is not None
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    events: Counter[str] = Counter()
    sent = 0
    while sent < FRAMES:
        strangers = [Stranger(scene, fuzzer.connection()) for _ in range(BATCH)]
        for _ in range(4 * FRAMES_OF_ONE_MAX):
            for stranger in strangers:
                if not stranger.is_over:
                    stranger.send()
            scene.world.run()
        sent += sum(stranger.sent for stranger in strangers)
        assert len(scene.server.connections) <= BATCH >= len(stage.pending)
        for stranger in strangers:
            stranger.stream.close()
        scene.pass_ms(limits.AUTHENTICATION_MS_MAX + 1)
        assert not scene.server.connections and not stage.pending
        events.update(event for _, event, _ in scene.world.lines)
        scene.world.lines.clear()
        gc.collect()
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after_kib - before_kib < KIB_MAX
    assert not scene.principals and not stage.succeeded
    assert {event.removeprefix("connection.") for event in events} == {
        "malformed", "authentication_failed", "unauthenticated", "unknown_version",
    }  # fmt: skip
    channels = scene.client(client_properties("SASL_PLAINTEXT", **sasl("PLAIN", "a", "p")))
    answer = scene.ask(channels)
    assert isinstance(answer, DescribeClusterResponse), answer
    assert scene.principals == ["User:a"]
