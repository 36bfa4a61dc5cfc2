"""Brokers that come back: after all others died, with an empty disk, with records that no other replica
has."""

from __future__ import annotations

import shutil
import time
import uuid
from itertools import permutations
from pathlib import Path

import confluent_kafka
import pytest

from barnabas.client.admin import NewTopic
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.conftest import SETTINGS
from tests.process.launch import barnabas
from tests.process.load import (
    Load,
    check_read_once,
    check_replicas_equal,
    led_by,
    view,
    wait_for_leader,
    wait_until_whole,
)

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


def topic_on(cluster: Cluster, replicas: list[int], min_in_sync: int) -> str:
    """One partition with these replicas, the first of which leads."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    configs = {"min.insync.replicas": str(min_in_sync)}
    with connect(cluster.bootstrap) as client:
        topic = NewTopic(name, -1, -1, configs, {0: replicas})
        client.call(client.admin.create_topics([topic]))[0].check()
    wait_until_whole(cluster, name)
    return name


def return_and_wait(cluster: Cluster, node_id: int) -> None:
    """Start it, until the controller lets it serve."""
    before = cluster.log_text(node_id).count("broker.unfenced")
    cluster.restart(node_id)
    cluster.wait_for(
        lambda: cluster.log_text(node_id).count("broker.unfenced") > before,
        f"broker {node_id} to be unfenced",
        60,
    )


@pytest.mark.parametrize("first_back", ["who died first", "who died last"])
def test_all_replicas_die_and_return(five: Cluster, first_back: str) -> None:
    first, last = five.node_ids[:2]
    topic = topic_on(five, [first, last], 1)
    with Load(five, topic, 1) as load:
        five.kill(first)
        load.wait_for_more(50)  # only `last` has these
        five.kill(last)
        five.wait_for(lambda: led_by(five, topic) == -1, "no leader")
        if first_back == "who died first":
            return_and_wait(five, first)
            assert view(five, topic)[0].leader == -1, "it lacks what the other acknowledged"
            return_and_wait(five, last)
        else:
            return_and_wait(five, last)
            return_and_wait(five, first)
        wait_until_whole(five, topic)
        load.wait_for_more(20)
    check_read_once(five, topic, load.acknowledged)
    check_replicas_equal(five, topic)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_three_replicas_die_one_by_one_and_return_in_each_order(
    five: Cluster, order: tuple[int, int, int]
) -> None:
    """The last one takes the quorum's majority with it. 0 lacks what was acknowledged after its death, and
    each comes back as one that may have lost something: no replica leads before all have been asked."""
    replicas = five.node_ids[1:4]
    topic = topic_on(five, replicas, 2)
    with Load(five, topic, 1) as load:
        five.kill(replicas[0])
        load.wait_for_more(50)  # only 1 and 2 have these
        five.kill(replicas[1])
        five.wait_for(lambda: led_by(five, topic) == replicas[2], "the last one to lead")
        five.kill(replicas[2])
        return_and_wait(five, replicas[order[0]])
        if order[0] == 0:
            assert view(five, topic)[0].leader not in five.node_ids, "it lacks what others have"
        for number in order[1:]:
            five.restart(replicas[number])
        wait_until_whole(five, topic)
        load.wait_for_more(20)
    check_read_once(five, topic, load.acknowledged)
    check_replicas_equal(five, topic)


def test_all_replicas_die_at_once_and_return(five: Cluster) -> None:
    replicas = five.node_ids[1:3]
    topic = topic_on(five, replicas, 2)
    with Load(five, topic, 1) as load:
        for node_id in replicas:
            five.kill(node_id)
        for node_id in replicas:
            five.restart(node_id)
        wait_until_whole(five, topic)
        load.wait_for_more(20)
    check_read_once(five, topic, load.acknowledged)
    check_replicas_equal(five, topic)


def test_a_broker_returns_with_an_empty_disk(five: Cluster) -> None:
    replicas = five.node_ids[2:5]
    topic = topic_on(five, replicas, 2)
    with Load(five, topic, 1) as load:
        five.kill(replicas[0])
        load.wait_for_more(50)
        five.wait_for(lambda: not five.is_alive(replicas[0]), "its end")
        data = five.directory / "cluster" / f"node-{replicas[0]}" / "data"
        cluster_id = _cluster_id(data)
        shutil.rmtree(data)
        properties = five.node(replicas[0])["properties"]
        formatted = barnabas(
            "storage", "format", properties, "--cluster-id", cluster_id, "--replace-lost"
        )
        assert formatted.returncode == 0, formatted.stderr
        return_and_wait(five, replicas[0])
        wait_until_whole(five, topic)
        load.wait_for_more(20)
    check_read_once(five, topic, load.acknowledged)
    check_replicas_equal(five, topic)


def _cluster_id(data: Path) -> str:
    lines = (data / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def test_an_old_leader_returns_with_a_record_that_no_other_replica_has(five: Cluster) -> None:
    leader, *followers = five.node_ids[2:5]
    topic = topic_on(five, [leader, *followers], 2)
    with Load(five, topic, 1) as load:
        load.wait_for_more(20)
    for node_id in followers:
        five.pause(node_id)
    try:
        _let_parked_fetches_end()
        _write_on_the_leader_alone(five.node(leader)["listeners"]["PLAINTEXT"], topic)
        five.pause(leader)
    finally:
        for node_id in followers:
            five.resume(node_id)
    try:
        assert wait_for_leader(five, topic, leader) in followers
        with Load(five, topic, 1) as after:
            after.wait_for_more(20)
    finally:
        five.resume(leader)
    wait_until_whole(five, topic)
    check_replicas_equal(five, topic)
    read = _values(five, topic)
    assert b"orphan" not in read
    expected = [*load.acknowledged[0], *after.acknowledged[0]]
    assert read == [b"%d" % n for n in expected]


def _let_parked_fetches_end() -> None:
    """A stopped follower reads the answer to the fetch that it sent before: let that one be empty."""
    time.sleep(5 * int(SETTINGS["replica.fetch.wait.max.ms"]) / 1000)


def _write_on_the_leader_alone(server: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "acks": 1, "log_level": 0})
    acknowledged: list[bool] = []
    producer.produce(
        topic, b"orphan", partition=0, on_delivery=lambda e, _: acknowledged.append(e is None)
    )
    assert producer.flush(20) == 0 and acknowledged == [True]


def _values(cluster: Cluster, topic: str) -> list[bytes | None]:
    with connect(cluster.bootstrap) as client:
        return [record.value for record in client.read([topic])]
