"""Notifications of changed configurations that are gone before they are read."""

from __future__ import annotations

from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster


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
