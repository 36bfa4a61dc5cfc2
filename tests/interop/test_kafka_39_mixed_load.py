"""Brokers of Apache Kafka 3.9.1 and of ours on one ZooKeeper, under load: each is killed -9 under a
controller of either side, and each continues on the other side's znodes and data. Nothing is lost, nothing is
there twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.mixed_cluster import (
    MixedCluster,
    check_replicas,
    mixed_cluster,
    run_tool,
    wait_until,
)
from tests.process import launch
from tests.process.migrating_machines import TOPIC, Load, check_read

BROKERS = (1, 2, 3)
TOPICS = "org.apache.kafka.tools.TopicCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(500),
]


@pytest.fixture(params=[(1,), (1, 2)], ids=str)
def cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MixedCluster]:
    monkeypatch.setattr(launch, "PATIENCE_S", 90.0)
    with mixed_cluster(tmp_path_factory.mktemp("load"), theirs=request.param) as cluster:
        yield cluster


def check_tools(cluster: MixedCluster) -> None:
    """Apache Kafka's own find every partition whole, on its preferred leader after an election, and replicas
    that are alike."""
    for state in ("under-replicated", "unavailable", "under-min-isr"):
        assert run_tool(cluster, TOPICS, "--describe", f"--{state}-partitions").strip() == ""
    run_tool(cluster, ELECTION, "--election-type", "preferred", "--all-topic-partitions")
    wait_until(lambda: cluster.leaders(TOPIC) == set(BROKERS), "each broker leads")
    check_replicas(cluster, TOPIC)


def test_each_broker_is_killed_under_a_controller_of_either_side(cluster: MixedCluster) -> None:
    for broker in BROKERS:
        cluster.start(broker)
    cluster.create(TOPIC)
    theirs = set(cluster.theirs)
    with Load(cluster) as load:
        for number, side in enumerate((theirs, set(BROKERS) - theirs)):
            for broker in BROKERS:
                cluster.rule(side)
                load.wait_for_more()
                cluster.kill(broker)
                wait_until(lambda: broker not in cluster.members(TOPIC), "a smaller ISR")  # noqa: B023
                load.wait_for_more()
                cluster.restart(broker)
            cluster.rule(side)
            cluster.create(f"ruled-{number}")
            load.wait_for_more()
    check_read(cluster, load)
    check_tools(cluster)


def test_each_broker_continues_on_what_the_other_side_wrote(cluster: MixedCluster) -> None:
    for broker in BROKERS:
        cluster.start(broker)
    cluster.create(TOPIC)
    with Load(cluster) as load:
        for broker in BROKERS:
            cluster.exchange(broker)
            load.wait_for_more()
        cluster.create("exchanged")
    check_read(cluster, load)
    check_tools(cluster)
