"""Notifications of changed configurations that are gone before they are read."""

from __future__ import annotations

import pytest

from barnabas.zookeeper.layout.config_znodes import CONFIG, ConfigChangeZnode
from barnabas.zookeeper.operations import Create, GetData, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster


@pytest.mark.slow
def test_a_notification_that_was_removed_has_everything_read_again() -> None:
    cluster = ZookeeperCluster(servers=3)
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    late = 1 if controller != 1 else 2
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "all are in sync")
    # All others read the notification long before this one wakes, and it is years old by their dates.
    for broker in (1, 2, 3):
        if broker != late:
            cluster.machines[f"n{broker}"].clock_offset_ms += 3_600_000
    cluster.processes[late].pause(2_000)
    assert cluster.alter_topic("t", controller, retention_ms="7000") == 0
    cluster.wait(lambda: not cluster.children("/config/changes"), "the notification is removed")

    def knows() -> bool:
        broker = cluster.nodes[late].broker
        return broker is not None and broker.image.config(2, "t").get("retention.ms") == "7000"

    cluster.wait(knows, "the one that slept knows it, too")


def test_an_unreadable_configuration_changes_nothing() -> None:
    """Not to the defaults: a topic that keeps everything would lose what is older than they say."""
    cluster = ZookeeperCluster()
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller, retention_ms="-1") == 0
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "all are in sync")
    sound = cluster.znode(GetData(f"{CONFIG}/topics/t")).data
    for data in (b"{", sound.replace(b'"-1"', b'"7000"')):
        cluster.znode(SetData(f"{CONFIG}/topics/t", data))
        change = ConfigChangeZnode("topics/t")
        cluster.znode(Create(change.path, change.encode(), sequential=True))
        cluster.pass_time(2_000)
        wanted = "-1" if data == b"{" else "7000"
        for node in cluster.nodes.values():
            assert node.broker is not None
            assert node.broker.image.config(2, "t") == {"retention.ms": wanted}


@pytest.mark.slow
def test_a_controller_epoch_that_is_mended_gives_a_controller_again() -> None:
    """Brokers that have just started know no epoch, and wait until it is mended."""
    cluster = ZookeeperCluster()
    cluster.wait_for_controller()
    epoch = cluster.znode(GetData("/controller_epoch")).data
    brokers = list(cluster.nodes)
    for broker in brokers:
        cluster.kill(broker)
    cluster.znode(SetData("/controller_epoch", b"?"))
    for broker in brokers:
        cluster.start(broker)
    cluster.pass_time(10_000)
    assert cluster.controller == -1
    cluster.znode(SetData("/controller_epoch", epoch))
    cluster.wait_for_controller()
