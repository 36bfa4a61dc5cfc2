"""What the controller of ZooKeeper mode counts, as `barnabas cluster metrics` asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.controller.active.metrics import KAFKA, OWN, PARTITIONS
from barnabas.monitoring.metric import parse_rows
from barnabas.monitoring.table import SECTIONS
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.zookeeper.layout.topic_znodes import topic_path
from barnabas.zookeeper.operations import Create
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

OF_CONTROLLER = ".controller:"
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    yield made
    made.world.let_go()


def metrics(cluster: ZookeeperCluster, broker: int) -> dict[str, int]:
    answer = cluster.ask(broker, DescribeClusterRequest(include_metrics=True))
    return {one.name: one.value for one in answer.metrics}


def test_the_controller_alone_counts_the_cluster(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller, partitions=3)
    counted = metrics(cluster, controller)
    assert counted[f"{KAFKA}ActiveBrokerCount"] == 3
    assert counted[f"{PARTITIONS}Online"] == 3
    assert any(OF_CONTROLLER not in name for name in counted)  # it is a broker, too
    other = next(broker for broker in cluster.nodes if broker != controller)
    assert not any(OF_CONTROLLER in name for name in metrics(cluster, other))


def test_deletions_that_wait_are_counted(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller, partitions=2)
    victim = next(broker for broker in cluster.nodes if broker != controller)
    cluster.kill(victim)
    cluster.wait(lambda: victim not in cluster.state("t")["isr"], "it is fenced")
    assert cluster.delete("t", controller) == 0
    cluster.pass_time(500)
    counted = metrics(cluster, controller)
    assert counted[f"{KAFKA}TopicsToDeleteCount"] == 1
    assert counted[f"{KAFKA}ReplicasToDeleteCount"] == 6
    assert counted[f"{KAFKA}TopicsIneligibleToDeleteCount"] == 1
    assert counted[f"{KAFKA}ReplicasIneligibleToDeleteCount"] == 2
    cluster.znode(Create(topic_path("u"), b"{"))
    cluster.wait(
        lambda: metrics(cluster, controller)[f"{OWN}TopicsLeftOut"] == 1, "a topic that is left out"
    )


def test_the_table_of_metrics_has_those_of_the_controller(cluster: ZookeeperCluster) -> None:
    counted = metrics(cluster, cluster.wait_for_controller())
    named = [
        metric.mbean
        for title in ("The active controller", "The controller in ZooKeeper mode")
        for metric in parse_rows(SECTIONS[title])
        if ",name=Last" not in metric.mbean
    ]
    assert sorted(named) == sorted(name for name in counted if OF_CONTROLLER in name)
