"""Whatever bytes come, a node answers with an error code or ends the connection with one log line.

Random requests of every API and version, with names, ids and numbers of things that exist mixed in, so
that they get past the first check; produced batches are damaged and sealed again. Then noise.
Nothing may reach the log as a fault of a handler, the node lives, and what was written stays.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.record.batch import HEADER_SIZE, seal
from barnabas.record.builder import build_batch
from barnabas.testing.cluster import Cluster
from barnabas.types import Uuid
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.codec import encode_bytes
from barnabas.wire.schema import Field, Message
from tests.unit.wire import random_messages
from tests.unit.wire.random_messages import messages

pytestmark = pytest.mark.process

SEEDS = 3
WORDS = ("victim", "g", "", "range", "consumer", "1", "-1", "cleanup.policy", "compact")
LEFT_OUT = {"ApiVersionsRequest", "UpdateFeaturesRequest", "DeleteTopicsRequest"}
WAITS = ("timeout_ms", "max_wait_ms", "session_timeout_ms", "rebalance_timeout_ms")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def endpoint(cluster: Cluster, listener: str) -> tuple[str, int]:
    host, _, port = cluster.node(1)["listeners"][listener].rpartition(":")
    return host, int(port)


class Plausible:
    """Random values among which things that exist are frequent."""

    def __init__(self, topic_id: Uuid) -> None:
        self.topic_id = topic_id
        self.anything = random_messages.random_scalar

    def __call__(self, field: Field, version: int, rng: Random) -> Any:
        if field.kind == "string" and rng.random() < 0.8:
            topic = field.name in ("name", "topic", "topic_name", "topic_names")
            return "victim" if topic else "g" if "group" in field.name else rng.choice(WORDS)
        if field.kind == "uuid" and rng.random() < 0.7:
            return self.topic_id
        if field.kind == "records" and rng.random() < 0.9:
            return b"".join(batch(rng) for _ in range(rng.choice((1, 1, 2))))
        if field.name == "acks":
            return rng.choice((-1, 1, 1, 0, 7))
        if field.kind.startswith("int") and rng.random() < 0.5:
            return rng.choice((-2, -1, 0, 0, 1, 1, 2))
        return self.anything(field, version, rng)


def batch(rng: Random) -> bytes:
    """A batch that is nearly one."""
    records = [(rng.choice((None, b"k")), b"v" * rng.randrange(50)) for _ in range(3)]
    made = bytearray(
        build_batch(
            records,
            timestamp_ms=1_700_000_000_000,
            producer_id=rng.choice((-1, -1, 5, rng.getrandbits(63))),
            producer_epoch=rng.choice((-1, 0, 3)),
            base_sequence=rng.choice((-1, 0, 1, 2**31 - 1)),
            codec=rng.randrange(5),
            transactional=rng.random() < 0.2,
        )
    )
    for _ in range(rng.choice((0, 1, 2))):
        made[rng.randrange(len(made))] = rng.choice((0, 1, 127, 128, 255))
    if rng.random() < 0.7 and len(made) > HEADER_SIZE:
        seal(made)
    return bytes(made)


class Caller:
    """Sends frames one after the other; connects again where it was sent away."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.answered = self.closed = 0
        self.connect()

    def connect(self) -> None:
        self.stream = socket.create_connection(self.address, timeout=5)

    def ask(self, data: bytes) -> None:
        answer = b""
        try:
            self.stream.sendall(data)
            while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
                got = self.stream.recv(1 << 20)
                if not got:
                    break
                answer += got
        except ConnectionError:
            answer = b""
        if answer:
            self.answered += 1
        else:
            self.closed += 1
            self.stream.close()
            self.connect()


def frame(cls: type[Message], version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", cls.API_KEY, version, 1, 1) + b"c"
    if version >= API_SCHEMAS[cls.API_KEY].first_flexible:
        head += b"\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


def requests(seed: int, listener: str) -> Iterator[tuple[type[Message], int, Any]]:
    for cls in messages():
        schema = API_SCHEMAS[cls.API_KEY]
        name = cls.__name__
        if name.endswith("Response") or name in LEFT_OUT or listener not in schema.listeners:
            continue
        for version in range(schema.min_version, schema.max_stable_version + 1):
            rng = Random(f"{seed} {name} {version}")
            message = random_messages.random_message(cls, version, rng)
            for wait in WAITS:
                if hasattr(message, wait):
                    setattr(message, wait, min(getattr(message, wait), 200))
            if getattr(message, "acks", -1) != 0:  # which has no answer to wait for
                yield cls, version, message


def is_whole(cluster: Cluster) -> None:
    """The node lives, no handler failed, what was written is still there."""
    assert cluster.is_alive(1)
    faults = [line for line in cluster.log_text(1).splitlines() if " request.failed " in line]
    assert faults == []
    with connect(cluster.bootstrap) as client:
        assert [r.value for r in client.read(["witness"])] == [b"%d" % i for i in range(100)]


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_random_requests_are_answered_or_refused(
    cluster: Cluster, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(cluster.bootstrap) as client:
        known = {view.name for view in client.topics()}
        if "witness" not in known:
            client.create_topic("witness", 1, 1)
            client.create_topic("victim", 2, 1)
            with client.producer() as producer:
                for i in range(100):
                    producer.send(ProducerRecord("witness", b"%d" % i))
        plausible = Plausible(client.topic("victim").topic_id)
    monkeypatch.setattr(random_messages, "random_scalar", plausible)
    kind = "broker" if listener == "PLAINTEXT" else "controller"
    caller = Caller(endpoint(cluster, listener))
    for seed in range(SEEDS):
        for cls, version, message in requests(seed, kind):
            caller.ask(frame(cls, version, encode_bytes(message, version)))
    assert caller.answered > 100
    is_whole(cluster)


def test_noise_and_impossible_sizes_end_the_connection(cluster: Cluster) -> None:
    rng = Random(5)
    for _ in range(100):
        caller = Caller(endpoint(cluster, "PLAINTEXT"))
        noise = rng.randbytes(rng.randrange(8, 200))
        caller.ask(b"\x00\x00\x00\x20" + noise.ljust(32, b"\xff")[:32] + b"\xff\xff\xff\xff")
        caller.stream.close()
    for size in (-1, -(2**31), 2**31 - 1, 200 << 20):
        caller = Caller(endpoint(cluster, "PLAINTEXT"))
        caller.ask(struct.pack(">i", size))
        assert caller.closed == 1
        caller.stream.close()
    is_whole(cluster)
