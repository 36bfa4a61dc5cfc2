"""Strings that are not UTF-8, in every string field of every request: the node answers as to any other, and
the connection lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.codec import encode_bytes
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_commit_response import OffsetCommitResponse
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.offset_fetch_response import OffsetFetchResponse
from barnabas.wire.schema import Message
from tests.process.launch import wait_until
from tests.process.test_any_request import (
    FAULTS,
    SIZE,
    Peer,
    ask,
    body_of,
    class_of,
    topic_with_records,
)
from tests.unit.wire.damaged_text import DAMAGED, damaged_body, string_places

pytestmark = [pytest.mark.process, pytest.mark.slow]
ANSWER_S = 20.0
RAW = bytes([10, 20, 0, 200, 255])
"""Offset metadata of a client that puts its own bytes there."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, settings={"offsets.topic.num.partitions": "1"}) as running:
        yield running


def address_of(cluster: Cluster, listener: str = "PLAINTEXT") -> str:
    address: str = cluster.node(1)["listeners"][listener]
    return address


def faults(cluster: Cluster) -> list[str]:
    return [line for line in cluster.log_text(1).splitlines() if any(f in line for f in FAULTS)]


def damaged_requests(address: str) -> Iterator[tuple[type[Message], type[Message], int, str]]:
    """Every API that the listener serves, in every version, with each of its string fields."""
    served = ask(address, ApiVersionsRequest(), 0, ApiVersionsResponse)
    for api in served.api_keys:
        schema = API_SCHEMAS[api.api_key]
        cls = class_of(schema.request_module, f"{schema.name}Request")
        response = class_of(schema.response_module, f"{schema.name}Response")
        for version in range(max(api.min_version, cls.VALID[0]), api.max_version + 1):
            for place in string_places(cls, version):
                yield cls, response, version, place


def answer_to_damaged(
    address: str, cls: type[Message], response: type[Message], version: int, place: str
) -> Any:
    """The answer, after which the connection has served another request."""
    body = damaged_body(cls, version, place)
    if body is None:
        return None
    peer = Peer(address)
    try:
        peer.send_bytes(cls, version, body)
        frame = peer.answer(ANSWER_S)
        assert frame, f"no answer to {cls.__name__} v{version} with {place}"
        peer.send(ApiVersionsRequest(), 0)
        assert peer.answer(ANSWER_S), f"closed after {cls.__name__} v{version} with {place}"
        return body_of(response, version, frame)
    finally:
        peer.close()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
@pytest.mark.timeout(600)
def test_a_string_that_is_not_utf8_is_answered(cluster: Cluster, listener: str) -> None:
    address = address_of(cluster, listener)
    answered = 0
    for cls, response, version, place in damaged_requests(address):
        answered += answer_to_damaged(address, cls, response, version, place) is not None
    assert answered > 50
    assert faults(cluster) == []


def test_a_client_id_that_is_not_utf8_is_served(cluster: Cluster) -> None:
    peer = Peer(address_of(cluster))
    head = SIZE.pack(10 + len(DAMAGED)) + b"\0\x12\0\0\0\0\0\7" + bytes([0, len(DAMAGED)]) + DAMAGED
    for _ in range(2):
        peer.socket.sendall(head)
        frame = peer.answer(ANSWER_S)
        assert frame
        assert body_of(ApiVersionsResponse, 0, frame).error_code == 0
    peer.close()


def test_offset_metadata_outlives_a_restart_byte_for_byte(cluster: Cluster) -> None:
    topic_with_records(address_of(cluster), "offsets")
    wait_until(lambda: has_committed(address_of(cluster)), "the coordinator to commit")
    assert RAW in committed(address_of(cluster))
    cluster.kill(1)
    cluster.restart(1)
    wait_until(lambda: bool(committed(address_of(cluster))), "the coordinator to load")
    assert RAW in committed(address_of(cluster))


def has_committed(address: str) -> bool:
    """Whether the commit of `RAW` succeeded; else the coordinator's topic is being made or loaded."""
    ask(address, FindCoordinatorRequest(key="g", key_type=0), 1, FindCoordinatorResponse)
    partition = OffsetCommitRequestPartition(committed_offset=6, committed_metadata="12345")
    topic = OffsetCommitRequestTopic(name="offsets", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
    peer = Peer(address)
    peer.send_bytes(OffsetCommitRequest, 8, encode_bytes(request, 8).replace(b"12345", RAW))
    frame = peer.answer(ANSWER_S)
    peer.close()
    assert frame
    return not body_of(OffsetCommitResponse, 8, frame).topics[0].partitions[0].error_code


def committed(address: str) -> bytes:
    """The answer to OffsetFetch, as bytes; empty while there is none."""
    names = [OffsetFetchRequestTopics(name="offsets", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=names)])
    try:
        peer = Peer(address)
    except ConnectionError:
        return b""
    peer.send(request, 8)
    frame = peer.answer(ANSWER_S) or b""
    peer.close()
    answer = body_of(OffsetFetchResponse, 8, frame) if frame else None
    return b"" if answer is None or answer.groups[0].error_code else frame
