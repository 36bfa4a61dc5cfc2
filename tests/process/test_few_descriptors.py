"""A node that may open few files refuses connections by closing them; no client waits in vain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles
from barnabas.record.builder import build_batch
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import CreateTopicsResponse
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import ProduceResponse
from tests.process.launch import wait_until
from tests.process.test_any_request import Peer, ask

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]
DESCRIPTORS = 400
PARTITIONS = 600
CLIENTS = 330
CLUSTER_ID = "ZmV3LWRlc2NyaXB0b3JzLQ"
PATIENCE_S = 30.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeFiles]:
    """One node that may open `DESCRIPTORS` files."""
    files = ClusterDirectory(tmp_path).lay_out(1, {})[0]
    python = [sys.executable, "-m", "barnabas"]
    storage = [*python, "storage", "format", "--cluster-id", CLUSTER_ID, str(files.properties)]
    subprocess.run(storage, check=True, capture_output=True, timeout=PATIENCE_S)
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            ["prlimit", f"--nofile={DESCRIPTORS}", *python, "node", "start", str(files.properties)],
            stdout=out,
            stderr=out,
        )
    try:
        yield files
    finally:
        process.kill()
        process.wait()


def is_created(address: str) -> bool:
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
    try:
        return not ask(address, request, 7, CreateTopicsResponse).topics[0].error_code
    except (AssertionError, OSError):
        return False


def has_written_to_all(address: str) -> bool:
    """Whether a record went into every partition: the logs have files to open."""
    records = build_batch([(b"k", b"v", (), 1)], timestamp_ms=1)
    data = [PartitionProduceData(index=i, records=records) for i in range(PARTITIONS)]
    topics = [TopicProduceData(name="t", partition_data=data)]
    request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=topics)
    answers = ask(address, request, 9, ProduceResponse).responses[0].partition_responses
    return {answer.error_code for answer in answers} == {0}


def test_a_client_is_served_or_closed(node: NodeFiles, tmp_path: Path) -> None:
    address = f"127.0.0.1:{node.client_port}"
    wait_until(lambda: is_created(address), "the topic")
    wait_until(lambda: has_written_to_all(address), "its leaders")
    peers = [Peer(address) for _ in range(CLIENTS)]
    served = closed = 0
    for peer in peers:
        peer.socket.settimeout(PATIENCE_S)
        try:
            peer.send(ApiVersionsRequest(), 0)
            found = peer.socket.recv(1)
        except ConnectionError:
            found = b""
        served, closed = served + bool(found), closed + (not found)
    assert served >= DESCRIPTORS // 4
    assert closed > 0
    assert b"connection.refused" in (tmp_path / "out").read_bytes()
    for peer in peers:
        peer.close()
    wait_until(lambda: is_answered(address), "the node to serve others again")


def is_answered(address: str) -> bool:
    try:
        return bool(ask(address, ApiVersionsRequest(), 0, ApiVersionsResponse).api_keys)
    except (AssertionError, OSError):
        return False
