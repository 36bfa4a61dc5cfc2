"""Consumers that read from a replica in their rack (KIP-392), on three simulated nodes in three racks."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.fetch.replica_selector import RACK_AWARE_SELECTOR
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import PartitionData
from tests.unit.broker.world import Cluster, code


@pytest.fixture
def three() -> Cluster:
    cluster = Cluster(3, racks=3, replica_selector_class=RACK_AWARE_SELECTOR)
    cluster.create_topic("t", 1, 3, min_insync_replicas="2")
    cluster.produce([b"a", b"b"])
    return cluster


def rack_of(node: int) -> str:
    return f"r{node % 3}"


def follower(cluster: Cluster) -> int:
    return next(node for node in cluster.ids if node != cluster.leader("t"))


def fetch(
    cluster: Cluster, rack: str, offset: int = 0, *, node: int | None = None, version: int = 17,
    **how: Any,
) -> PartitionData:  # fmt: skip
    request: FetchRequest = cluster.fetch_request(offset, **how)
    request.rack_id = rack
    response = cluster.ask(request, cluster.leader("t") if node is None else node, version)
    data: PartitionData = response.responses[0].partitions[0]
    return data


def test_leader_names_a_replica_in_the_consumers_rack(three: Cluster) -> None:
    near = follower(three)
    data = fetch(three, rack_of(near), max_wait_ms=10_000, min_bytes=1_000)
    assert (data.error_code, data.preferred_read_replica) == (0, near)
    assert not data.records and data.high_watermark == 2
    data = fetch(three, rack_of(near), node=near)
    assert three.values(data) == [b"a", b"b"]
    assert data.preferred_read_replica == -1


@pytest.mark.parametrize("rack", ["", "elsewhere"])
def test_leader_serves_consumers_of_no_known_rack(three: Cluster, rack: str) -> None:
    assert three.values(fetch(three, rack)) == [b"a", b"b"]


def test_leader_serves_consumers_of_its_own_rack(three: Cluster) -> None:
    data = fetch(three, rack_of(three.leader("t")))
    assert data.preferred_read_replica == -1 and three.values(data) == [b"a", b"b"]


def test_consumer_that_cannot_read_from_followers_is_served(three: Cluster) -> None:
    assert three.values(fetch(three, rack_of(follower(three)), version=10)) == [b"a", b"b"]


def test_replica_that_lacks_the_offset_is_not_named(three: Cluster) -> None:
    data = fetch(three, rack_of(follower(three)), 7)
    assert code(data.error_code) == "OFFSET_OUT_OF_RANGE"
    assert data.preferred_read_replica == -1


def test_replica_outside_the_isr_is_not_named(three: Cluster) -> None:
    near = follower(three)
    three.sim.nodes[near].kill()
    leader = three.partition(three.leader("t")).leader
    assert leader is not None
    three.until(lambda: near not in leader.isr)
    assert three.values(fetch(three, rack_of(near))) == [b"a", b"b"]


def test_follower_gets_a_high_watermark_without_waiting(three: Cluster) -> None:
    near = follower(three)
    three.produce([b"c"])
    began = three.world.now_ms
    three.until(lambda: three.partition(near).high_watermark == 3)
    assert three.world.now_ms - began < 100  # replica.fetch.wait.max.ms is 500


@pytest.mark.slow
def test_parked_consumer_of_a_follower_is_answered_by_an_append(three: Cluster) -> None:
    near = follower(three)
    request = three.fetch_request(2, max_wait_ms=20_000)
    request.rack_id = rack_of(near)
    began = three.world.now_ms
    answer = three.ask_later(request, near, purpose="consumer")
    three.produce([b"c"])
    three.until(lambda: answer.is_there)
    data = answer.value.responses[0].partitions[0]
    assert three.values(data) == [b"c"] and three.world.now_ms - began < 500


def test_leaders_serve_everyone_without_a_selector() -> None:
    cluster = Cluster(3, racks=3)
    cluster.create_topic("t", 1, 3)
    cluster.produce([b"a"])
    data = fetch(cluster, rack_of(follower(cluster)))
    assert data.preferred_read_replica == -1 and cluster.values(data) == [b"a"]
