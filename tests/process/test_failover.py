"""Leaders and controllers that die or go silent under load: each acknowledged record is read once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.client.admin import NewTopic
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from bench.wire import active_controller
from tests.process.load import (
    Load,
    check_read_once,
    check_replicas_equal,
    view,
    wait_for_leader,
    wait_until_whole,
)

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]
PARTITIONS = 3


def new_topic(cluster: Cluster, partitions: int = PARTITIONS) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with connect(cluster.bootstrap) as client:
        client.create_topic(name, partitions, 3, {"min.insync.replicas": "2"})
    wait_until_whole(cluster, name)
    return name


def new_topic_without(cluster: Cluster, node_id: int) -> str:
    """A topic that has no replica on this node."""
    others = [n for n in cluster.node_ids if n != node_id]
    rows = {p: [others[p], others[(p + 1) % 4], others[(p + 2) % 4]] for p in range(PARTITIONS)}
    name = f"t-{uuid.uuid4().hex[:8]}"
    with connect(cluster.bootstrap) as client:
        topic = NewTopic(name, -1, -1, {"min.insync.replicas": "2"}, rows)
        client.call(client.admin.create_topics([topic]))[0].check()
    wait_until_whole(cluster, name)
    return name


@contextmanager
def loaded(cluster: Cluster, topic: str) -> Iterator[Load]:
    """Under load; afterwards every record is there once and every replica the same."""
    with Load(cluster, topic, PARTITIONS) as load:
        yield load
        wait_until_whole(cluster, topic)
        load.wait_for_more(20)
    check_read_once(cluster, topic, load.acknowledged)
    for partition in range(PARTITIONS):
        check_replicas_equal(cluster, topic, partition)


def test_the_leader_dies(five: Cluster) -> None:
    topic = new_topic(five)
    with loaded(five, topic) as load:
        victim = view(five, topic)[0].leader
        five.kill(victim)
        load.wait_for_more(50)
        wait_for_leader(five, topic, victim)
        five.restart(victim)


def test_the_active_controller_dies(five: Cluster) -> None:
    topic = new_topic(five)
    with loaded(five, topic) as load:
        victim = active_controller(five.bootstrap)
        five.kill(victim)
        load.wait_for_more(50)
        five.wait_for(lambda: active_controller(five.bootstrap) not in (victim, -1), "a controller")
        five.restart(victim)


def test_leader_and_controller_die_at_once(five: Cluster) -> None:
    controller = active_controller(five.bootstrap)
    topic = new_topic_without(five, controller)
    with loaded(five, topic) as load:
        leader = view(five, topic)[0].leader
        five.kill(controller)
        five.kill(leader)
        load.wait_for_more(50)
        wait_for_leader(five, topic, leader, controller)
        five.restart(leader)
        five.restart(controller)


def test_a_leader_and_another_node_on_the_small_side_of_a_netsplit(five: Cluster) -> None:
    """Hosts that go silent without closing anything: only time-outs tell of them."""
    outsider = five.node_ids[-1]
    topic = new_topic_without(five, outsider)
    with loaded(five, topic) as load:
        leader = view(five, topic)[0].leader
        with silent(five, leader, outsider) as servers:
            five.wait_for(
                lambda: leader_of(servers, topic) not in (leader, -1), "one on the large side", 60
            )
            load.wait_for_more(50)


@contextmanager
def silent(cluster: Cluster, *nodes: int) -> Iterator[str]:
    """SIGSTOP: their connections stay open and nothing comes; afterwards they continue where they were.
    Yields where the others listen."""
    others = [n for n in cluster.node_ids if n not in nodes]
    for node_id in nodes:
        cluster.pause(node_id)
    try:
        yield ",".join(cluster.node(n)["listeners"]["PLAINTEXT"] for n in others)
    finally:
        for node_id in nodes:
            cluster.resume(node_id)


def leader_of(servers: str, topic: str) -> int:
    """Of partition 0, as these know it."""
    with connect(servers) as client:
        return client.topic(topic).partitions[0].leader


def test_the_leader_goes_silent(five: Cluster) -> None:
    """Its session runs out; when it wakes up it still believes that it leads, and no other broker does."""
    topic = new_topic_without(five, active_controller(five.bootstrap))
    with loaded(five, topic) as load:
        victim = view(five, topic)[0].leader
        with silent(five, victim) as servers:
            five.wait_for(lambda: leader_of(servers, topic) not in (victim, -1), "a leader", 60)
            load.wait_for_more(50)


def test_the_active_controller_goes_silent(five: Cluster) -> None:
    """Another one is elected; the one that wakes up decides nothing any more."""
    victim = active_controller(five.bootstrap)
    topic = new_topic_without(five, victim)
    with loaded(five, topic) as load:
        with silent(five, victim) as servers:
            five.wait_for(lambda: active_controller(servers) not in (victim, -1), "a controller")
            load.wait_for_more(50)
            with connect(servers) as client:
                client.create_topic(f"{topic}-meanwhile", 1, 3)
        five.wait_for(lambda: active_controller(five.bootstrap) != victim, "its resignation")
        with connect(five.node(victim)["listeners"]["PLAINTEXT"]) as client:
            five.wait_for(lambda: f"{topic}-meanwhile" in {t.name for t in client.topics()}, "it")


def test_leader_and_controller_go_silent_at_once(five: Cluster) -> None:
    controller = active_controller(five.bootstrap)
    topic = new_topic_without(five, controller)
    with loaded(five, topic) as load:
        leader = view(five, topic)[0].leader
        with silent(five, controller, leader) as servers:
            five.wait_for(lambda: active_controller(servers) not in (controller, -1), "another")
            five.wait_for(lambda: leader_of(servers, topic) not in (leader, -1), "a leader", 60)
            load.wait_for_more(50)


def test_every_broker_restarts_in_turn_and_no_isr_falls_below_the_minimum(five: Cluster) -> None:
    topic = new_topic(five)
    ended = threading.Event()
    sizes: set[int] = set()

    def watch() -> None:
        while not ended.wait(0.02):
            sizes.update(len(p.isr) for p in view(five, topic).values())

    watcher = threading.Thread(target=watch, daemon=True)
    with loaded(five, topic) as load:
        watcher.start()
        for node_id in five.node_ids:
            five.terminate(node_id)
            five.restart(node_id)
            wait_until_whole(five, topic)
            load.wait_for_more(20)
        ended.set()
        watcher.join(10)
    assert min(sizes) >= 2
