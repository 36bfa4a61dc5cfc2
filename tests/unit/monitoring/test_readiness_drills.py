"""Drills of readiness with real nodes on simulated time: a node that the cluster cannot count on says so,
and why, within a second. A seed decides the course, so that a drill is the same each time.

Each state by itself, and those that no cluster holds for long, are in `test_health`; two drills with
processes are in `tests/interop/test_readiness_drills.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.monitoring.health import NodeReadiness
from tests.unit.broker.world import Cluster

pytestmark = pytest.mark.slow
NOTICED_MS = 1_000.0
DISK_NOTICED_MS = 4_000.0
"""A disk is silent once two of the directory's ticks have passed. A slow one may take a second."""
NODES = (1, 2, 3)


class Drill:
    """Three nodes that are ready, and what each says of itself."""

    def __init__(self, directories: int = 1) -> None:
        self.cluster = Cluster(3, directories=directories)
        self.network = self.cluster.sim.network
        self.readiness = {node: NodeReadiness(self.process(node).clock) for node in NODES}
        self.cluster.until(lambda: not any(self.failing(node) for node in NODES))

    def process(self, node: int) -> Any:
        found = self.cluster.sim.nodes[node].process
        assert found is not None
        return found

    def failing(self, node: int) -> dict[str, str]:
        """The checks that fail, with their reasons."""
        running = self.cluster.sim.nodes[node].node
        assert running is not None
        checks = self.readiness[node].checks(
            running.quorum, running.broker, is_stopping=running.is_stopping
        )
        return {check.name: check.why for check in checks if not check.passes}

    @property
    def leader(self) -> int:
        """The leader of the quorum."""
        return next(n for n in self.cluster.ids if self.quorum_of(n).leader_id == n)

    def quorum_of(self, node: int) -> Any:
        running = self.cluster.sim.nodes[node].node
        assert running is not None
        return running.quorum

    @property
    def follower(self) -> int:
        leader = self.leader
        return next(node for node in NODES if node != leader)

    def others(self, node: int) -> list[int]:
        return [other for other in NODES if other != node]

    def isolate(self, node: int) -> None:
        for other in self.others(node):
            self.network.cut(f"n{node}", f"n{other}")
            self.network.cut(f"n{other}", f"n{node}")

    def says(self, node: int, check: str, why: str, within_ms: float = NOTICED_MS) -> None:
        self.cluster.until(lambda: why in self.failing(node).get(check, ""), within_ms)

    def recovers(self) -> None:
        self.cluster.until(lambda: not any(self.failing(node) for node in NODES))


@pytest.fixture
def drill() -> Drill:
    return Drill()


def test_a_leader_whose_majority_died_is_not_ready(drill: Drill) -> None:
    leader = drill.leader
    for node in drill.others(leader):
        drill.cluster.sim.nodes[node].kill()
    drill.says(leader, "quorum", "metadata quorum")


def test_a_leader_whose_majority_lost_power_is_not_ready(drill: Drill) -> None:
    leader = drill.leader
    for node in drill.others(leader):
        drill.cluster.sim.nodes[node].kill(power_loss=True)
    drill.says(leader, "quorum", "no majority of the metadata quorum has fetched")


def test_a_leader_that_is_cut_off_is_not_ready(drill: Drill) -> None:
    leader = drill.leader
    drill.isolate(leader)
    drill.says(leader, "quorum", "no majority of the metadata quorum has fetched")
    drill.network.heal()
    drill.recovers()


def test_a_follower_that_is_cut_off_is_not_ready(drill: Drill) -> None:
    node = drill.follower
    drill.isolate(node)
    drill.says(node, "quorum", "the leader of the metadata quorum has not answered")
    drill.network.heal()
    drill.recovers()


def test_a_follower_whose_majority_died_is_not_ready(drill: Drill) -> None:
    node = drill.follower
    for other in drill.others(node):
        drill.cluster.sim.nodes[other].kill()
    drill.says(node, "quorum", "no leader of the metadata quorum is known")


def test_a_broker_that_was_paused_says_that_it_is_fenced(drill: Drill) -> None:
    node = drill.follower
    watcher = next(other for other in drill.others(node))
    drill.process(node).pause(6_000)
    known = drill.cluster.broker(watcher).image.brokers
    drill.cluster.until(lambda: known[node].fenced)
    drill.cluster.until(lambda: drill.process(node).is_free)
    drill.says(node, "registration", "has fenced this broker")
    drill.recovers()


def test_a_broker_that_shuts_down_is_not_ready(drill: Drill) -> None:
    node = drill.follower
    drill.cluster.sim.nodes[node].shut_down()
    drill.says(node, "running", "the node shuts down")


def test_a_node_that_starts_is_not_ready_before_it_is_registered(drill: Drill) -> None:
    node = drill.follower
    drill.cluster.sim.nodes[node].kill()
    drill.cluster.sim.nodes[node].start()
    assert "registration" in drill.failing(node)
    drill.recovers()


def test_a_broker_with_a_failed_directory_is_not_ready() -> None:
    drill = Drill(directories=2)
    cluster = drill.cluster
    cluster.create_topic("t", partitions=4, replication=3)
    drill.recovers()
    node = drill.follower
    disk = cluster.sim.nodes[node].machine.disk
    disk.fail_call(1, prefix="/data2", for_good=True)
    for index in range(4):
        cluster.ask_later(cluster.produce_request([b"v"], index=index), cluster.leader("t", index))
    cluster.until(lambda: disk.fault_was_hit)
    drill.says(node, "log_directories", "/data2 is offline")


def test_a_broker_that_holds_up_producers_is_not_ready(drill: Drill) -> None:
    """Its link to the partition's leader is down, and the topic needs all replicas."""
    cluster, quorum_leader = drill.cluster, drill.leader
    cluster.create_topic("held", partitions=3, replication=3, min_insync_replicas="3")
    drill.recovers()
    leader = next(n for n in NODES if n != quorum_leader)
    index = next(index for index in range(3) if cluster.leader("held", index) == leader)
    [node] = set(NODES) - {quorum_leader, leader}
    drill.network.cut(f"n{leader}", f"n{node}")
    drill.network.cut(f"n{node}", f"n{leader}")
    cluster.ask_later(cluster.produce_request([b"v"], topic="held", index=index, acks=1), leader)
    state = cluster.broker(node).image.topics_by_name["held"]
    cluster.until(lambda: node not in state.isr[index])
    drill.says(node, "min_isr", f"held-{index}")
    assert "min_isr" not in drill.failing(leader)
    drill.network.heal()
    drill.recovers()


def test_a_disk_that_hangs_shows_after_some_ticks(drill: Drill) -> None:
    cluster = drill.cluster
    cluster.create_topic("slow", replication=3, flush_messages="1")
    node = cluster.leader("slow")
    machine = cluster.sim.nodes[node].machine
    machine.sync_ms_max = 60_000.0
    for _ in range(5):
        cluster.ask_later(cluster.produce_request([b"v"], topic="slow", acks=1), node)
    drill.says(node, "log_directories", "has not answered", DISK_NOTICED_MS)


def test_a_healthy_cluster_is_always_ready(drill: Drill) -> None:
    """Two minutes of simulated time, with records that are written, looked at twice a second."""
    drill.cluster.create_topic("t", replication=3)
    drill.recovers()
    said: list[object] = []
    for round_number in range(24):
        drill.cluster.produce([b"%d" % round_number])
        for _ in range(10):
            drill.cluster.run(500)
            said += [found for node in NODES if (found := drill.failing(node))]
    assert not said
