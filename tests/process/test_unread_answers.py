"""Clients that pipeline fetches and read no answer: a node's memory has a bound over all, and returns."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tests.process.launch import wait_until
from tests.process.test_any_request import Peer, ask

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]
MIB = 1 << 20
CLIENTS, FETCHES, ANSWER = 60, 4, 10 * MIB
BOUND = 256 * MIB
"""Of all answers that wait, besides one batch a connection."""
RETURNED = 128 * MIB
"""What a node may keep afterwards, beyond what it had before."""


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_unread_answers_have_one_bound_and_their_memory_returns() -> None:
    """The clients ask for 2.4 GB. Without a bound over all connections a node held and kept most of it."""
    with Cluster(nodes=1) as cluster:
        client = connect(cluster.bootstrap)
        client.create_topic("t", 1, 1, {"compression.type": "producer"})
        with client.producer() as producer:
            for _ in range(2 * ANSWER // (MIB // 2)):
                producer.send(ProducerRecord("t", bytes(MIB // 2)))
        client.close()
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=ANSWER)
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=ANSWER,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )
        pid = cluster.pid(1)
        before = most = resident(pid)
        peers = [Peer(cluster.bootstrap) for _ in range(CLIENTS)]
        for peer in peers:
            for _ in range(FETCHES):
                peer.send(request, 11)
        end_s = time.monotonic() + 5
        while time.monotonic() < end_s:
            most = max(most, resident(pid))
            time.sleep(0.02)
        assert BOUND < most - before < BOUND + CLIENTS * MIB + RETURNED
        versions = ask(cluster.bootstrap, ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert versions.api_keys, "others are served meanwhile"
        for peer in peers:
            peer.close()
        wait_until(lambda: resident(pid) < before + RETURNED, "the node to return its memory")
