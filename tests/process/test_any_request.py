"""Every API in every version, empty and filled with chance: an answer or a closed connection, never a
fault of the node, and afterwards it works as before."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any

import pytest

from barnabas.cli.local.free_ports import HOST
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.codec import (
    UnsupportedFieldError,
    decode,
    decode_prefix,
    encode_bytes,
    is_flexible,
)
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import CreateTopicsResponse
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.schema import Message
from tests.process.launch import Up
from tests.unit.wire.random_messages import random_message

pytestmark = [pytest.mark.process, pytest.mark.slow]

ANSWER_S = 0.15
"""Many requests may wait for longer than this test does."""
RANDOM_ROUNDS = 20
PLAUSIBLE_ROUNDS = 40
LEAVES_NOTHING = {ApiKey.UNREGISTER_BROKER, ApiKey.DELETE_TOPICS, ApiKey.UPDATE_FEATURES}
"""With plausible values these would take away what the others need."""
SIZE = Struct(">i")
FAULTS = ("request.failed ", "request.forwarded_failed", "node.fault", "node.halted")


class Peer:
    """An unknown client, with a socket."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=5)

    def send(self, request: Message, version: int) -> None:
        self.send_bytes(type(request), version, encode_bytes(request, version))

    def send_bytes(self, cls: type[Message], version: int, body: bytes) -> None:
        flexible = is_flexible(cls, version)
        header = RequestHeader(
            request_api_key=cls.API_KEY,
            request_api_version=version,
            correlation_id=7,
            client_id="any-client",
        )
        frame = encode_bytes(header, 2 if flexible else 1) + body
        self.socket.sendall(SIZE.pack(len(frame)) + frame)

    def answer(self, timeout_s: float) -> bytes | None:
        """The next frame; None where none comes or the connection ends."""
        self.socket.settimeout(timeout_s)
        try:
            size = self._exactly(4)
            return size and self._exactly(SIZE.unpack(size)[0])
        except (TimeoutError, ConnectionError):
            return None

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            if not more:
                return b""
            found += more
        return found

    def close(self) -> None:
        self.socket.close()


def ask(address: str, request: Message, version: int, response: type[Message]) -> Any:
    peer = Peer(address)
    try:
        peer.send(request, version)
        frame = peer.answer(10)
        assert frame, f"no answer to {request}"
        return body_of(response, version, frame)
    finally:
        peer.close()


def body_of(response: type[Message], version: int, frame: bytes) -> Any:
    if response is ApiVersionsResponse or not is_flexible(response, version):
        return decode(response, version, memoryview(frame)[4:])
    return decode_prefix(response, version, memoryview(frame), 5)[0]


def class_of(module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"barnabas.wire.messages.{module}"), name)
    return found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(
        tmp_path_factory.mktemp("any") / "cluster",
        "--nodes",
        "1",
        "--set",
        "offsets.topic.num.partitions=1",
    )
    try:
        up.wait_for_line("bootstrap: ")
        yield up
    finally:
        up.end()


def faults(up: Up) -> list[str]:
    lines = up.logs().splitlines()
    whole = [Path(entry["log"]).read_text().splitlines() for entry in up.state["nodes"]]
    return [line for log in (lines, *whole) for line in log if any(f in line for f in FAULTS)]


def requests_of(cls: type[Message], version: int, rng: Random) -> Iterator[bytes]:
    """An empty one, random ones, and one cut off in the middle."""
    yield encode_bytes(cls(), version)
    for _ in range(RANDOM_ROUNDS):
        whole = encode_bytes(random_message(cls, version, rng), version)
        yield whole
    yield whole[: len(whole) // 2]


def make_plausible(message: Message, rng: Random, topic_id: bytes) -> Message:
    """Put in what exists: the topic ``t``, its id, its partition, small numbers."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        items = value if isinstance(value, list) else [value]
        changed = [_plausible(item, field.kind, rng, topic_id) for item in items]
        setattr(message, field.name, changed if isinstance(value, list) else changed[0])
    return message


def _plausible(value: Any, kind: str, rng: Random, topic_id: bytes) -> Any:
    if isinstance(value, Message):
        return make_plausible(value, rng, topic_id)
    if value is None or rng.random() < 0.25:
        return value
    if kind == "string":
        return rng.choice(("t", "t", "g", "1", "", "consumer", "range"))
    if kind == "uuid":
        return topic_id
    if kind in ("int8", "int16", "int32", "int64"):
        return rng.choice((0, 0, 1, 1, -1, 2, 5))
    return value


def topic_with_records(address: str, name: str) -> bytes:
    """Create a topic; its id."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    created = ask(address, CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
    assert created.topics[0].error_code == 0, created
    topic_id: bytes = created.topics[0].topic_id
    return topic_id


@pytest.mark.timeout(600)
def test_any_plausible_request_is_answered_or_ends_its_connection(node: Up) -> None:
    address = node.state["nodes"][0]["listeners"]["PLAINTEXT"]
    topic_id = topic_with_records(address, "t")
    served = ask(address, ApiVersionsRequest(), 0, ApiVersionsResponse)
    rng = Random(2)
    for api in served.api_keys:
        schema = API_SCHEMAS[api.api_key]
        cls = class_of(schema.request_module, f"{schema.name}Request")
        response = class_of(schema.response_module, f"{schema.name}Response")
        if api.api_key in LEAVES_NOTHING:
            continue
        for version in range(max(api.min_version, cls.VALID[0]), api.max_version + 1):
            for _ in range(PLAUSIBLE_ROUNDS):
                message = make_plausible(random_message(cls, version, rng), rng, topic_id)
                try:
                    body = encode_bytes(message, version)
                except UnsupportedFieldError:
                    continue  # a default that this version cannot say
                peer = Peer(address)
                peer.send_bytes(cls, version, body)
                frame = peer.answer(ANSWER_S)
                if frame:
                    body_of(response, version, frame)
                peer.close()
    assert faults(node) == []


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
@pytest.mark.timeout(600)
def test_any_request_is_answered_or_ends_its_connection(node: Up, listener: str) -> None:
    address = node.state["nodes"][0]["listeners"][listener]
    served = ask(address, ApiVersionsRequest(), 0, ApiVersionsResponse)
    rng = Random(f"{listener}/1")
    for api in served.api_keys:
        schema = API_SCHEMAS[api.api_key]
        cls = class_of(schema.request_module, f"{schema.name}Request")
        response = class_of(schema.response_module, f"{schema.name}Response")
        for version in range(max(api.min_version, cls.VALID[0]), api.max_version + 1):
            for body in requests_of(cls, version, rng):
                peer = Peer(address)
                peer.send_bytes(cls, version, body)
                frame = peer.answer(ANSWER_S)
                if frame:
                    body_of(response, version, frame)
                peer.close()
    assert faults(node) == []


GARBAGE = {
    "an http request": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n" * 3,
    "a negative size": SIZE.pack(-1) + bytes(16),
    "a size beyond the limit": SIZE.pack(2**31 - 1) + bytes(1000),
    "a size without its bytes": SIZE.pack(1000) + bytes(10),
    "no header": SIZE.pack(0),
    "an unknown api": SIZE.pack(12) + b"\x03\xe7\0\0\0\0\0\1\xff\xff\0\0",
    "an unknown version": SIZE.pack(12) + b"\0\3\x03\xe7\0\0\0\1\xff\xff\0\0",
    "an array beyond its frame": SIZE.pack(15)
    + b"\0\3\0\x0c\0\0\0\1\xff\xff\0\xff\xff\xff\xff"
    + b"\x0f",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_ends_its_connection_only(node: Up, what: str) -> None:
    address = node.state["nodes"][0]["listeners"]["PLAINTEXT"]
    peer = Peer(address)
    peer.socket.sendall(GARBAGE[what])
    peer.socket.shutdown(socket.SHUT_WR)
    peer.socket.settimeout(5)
    assert peer.socket.recv(100) == b""
    peer.close()
    assert faults(node) == []


def test_a_frame_that_comes_byte_by_byte_is_a_frame(node: Up) -> None:
    address = node.state["nodes"][0]["listeners"]["PLAINTEXT"]
    peer = Peer(address)
    peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    whole = bytearray()
    peer.socket, real = _Collector(whole), peer.socket
    peer.send(ApiVersionsRequest(), 0)
    peer.socket = real
    for byte in whole:
        real.sendall(bytes((byte,)))
    frame = peer.answer(5)
    assert frame
    assert body_of(ApiVersionsResponse, 0, frame).error_code == 0
    peer.close()


class _Collector(socket.socket):
    """Takes what would be sent."""

    def __init__(self, into: bytearray) -> None:
        super().__init__()
        self._into = into

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._into += data


def test_the_node_works_as_before(node: Up) -> None:
    address = node.state["nodes"][0]["listeners"]["PLAINTEXT"]
    assert HOST in address
    topic_with_records(address, "after")
    names = [MetadataRequestTopic(name="after")]
    shown = ask(address, MetadataRequest(topics=names), 12, MetadataResponse)
    assert shown.topics[0].partitions[0].leader_id == 1, shown
