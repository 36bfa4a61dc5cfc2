"""A running cluster leaves ZooKeeper under controllers of a quorum, in virtual time."""

from __future__ import annotations

import pytest

from barnabas.controller.zookeeper_migration import ZkMigrationState
from barnabas.zookeeper.migration.driver import MigrationPhase
from tests.unit.zookeeper.migrating_cluster import CONTROLLERS, MigratingCluster

pytestmark = pytest.mark.slow


def migrated(seed: int = 1) -> MigratingCluster:
    """In dual write, with the topic `before`."""
    cluster = MigratingCluster(seed=seed)
    cluster.wait_for_controller()
    assert cluster.create("before", 1, partitions=2) == 0
    cluster.begin()
    cluster.wait_for_dual_write()
    return cluster


def same(cluster: MigratingCluster) -> bool:
    """Whether every state znode says what the log says, in the version that is the partition epoch."""
    image = cluster.image()
    for topic in image.topics_by_id.values():
        for index in range(len(topic)):
            known = cluster.read_versioned(topic.name, index)
            state = topic.partition(index)
            wanted = (state.leader, state.leader_epoch, list(state.isr), state.partition_epoch)
            if known != wanted:
                return False
    return True


def leads(cluster: MigratingCluster, topic: str) -> int:
    return cluster.image().topics_by_name[topic].leader[0]


def whole(cluster: MigratingCluster, topic: str) -> bool:
    return set(cluster.image().topics_by_name[topic].isr[0]) == {1, 2, 3}


def test_a_running_cluster_is_copied_and_both_are_written() -> None:
    cluster = migrated()
    assert cluster.image().zk_migration_state == ZkMigrationState.MIGRATION
    assert "before" in cluster.image().topics_by_name
    assert cluster.create("after", 2, partitions=2) == 0
    cluster.wait(lambda: "after" in cluster.children("/brokers/topics"), "the znode of the topic")
    cluster.wait(lambda: same(cluster), "both say the same")
    assert cluster.produce("after", leads(cluster, "after")) == 0
    assert cluster.delete("before", 3) == 0
    cluster.wait(lambda: "before" not in cluster.children("/brokers/topics"), "its end")
    cluster.wait(
        lambda: all("before" not in cluster.broker_of(n).image.topics_by_name for n in (1, 2, 3)),
        "brokers have heard of it",
    )


def test_a_quorum_waits_until_every_broker_has_registered() -> None:
    cluster = MigratingCluster()
    cluster.wait_for_controller()
    for node_id in CONTROLLERS:
        cluster.start_controller(node_id)
    cluster.enable(1)
    cluster.wait(lambda: cluster.phase() is MigrationPhase.WAIT_FOR_BROKERS, "it waits")
    cluster.pass_time(5_000)
    assert cluster.phase() is MigrationPhase.WAIT_FOR_BROKERS
    assert cluster.create("meanwhile", 2) == 0
    for broker in (2, 3):
        cluster.enable(broker)
    cluster.wait_for_dual_write()
    assert "meanwhile" in cluster.image().topics_by_name


def test_brokers_change_over_one_by_one_and_the_migration_ends() -> None:
    cluster = migrated()
    for broker in (1, 2, 3):
        cluster.to_kraft(broker)
        cluster.wait(lambda: whole(cluster, "before"), f"everyone is in the ISR after {broker}")
        assert cluster.produce("before", leads(cluster, "before")) == 0
        assert cluster.create(f"with-{broker}", broker) == 0
    cluster.wait(lambda: same(cluster), "both say the same")
    for node_id in CONTROLLERS:
        cluster.kill_controller(node_id)
        cluster.start_controller(node_id, migrates=False)
        cluster.wait(lambda: cluster.leader >= 0, "a leader")
    assert cluster.image().zk_migration_state == ZkMigrationState.POST_MIGRATION
    assert cluster.create("final", 1) == 0


def test_a_new_leader_of_the_quorum_continues_the_dual_write() -> None:
    cluster = migrated()
    cluster.to_kraft(1)
    for _ in range(3):
        leader = cluster.leader
        cluster.kill_controller(leader)
        cluster.wait(
            lambda: cluster.phase() is MigrationPhase.DUAL_WRITE, "another one writes both"
        )
        cluster.start_controller(leader)
        name = f"under-{cluster.leader}-{leader}"
        assert cluster.create(name, 2) == 0
        cluster.wait(lambda: name in cluster.children("/brokers/topics"), "its znode")  # noqa: B023
    cluster.wait(lambda: whole(cluster, "before"), "everyone is in the ISR")
    cluster.wait(lambda: same(cluster), "both say the same")


def test_the_way_back_can_be_taken_and_the_migration_begun_again() -> None:
    cluster = migrated()
    cluster.to_kraft(1)
    assert cluster.create("under-kraft", 1, partitions=3) == 0
    cluster.wait(lambda: whole(cluster, "under-kraft"), "its replicas")
    for attempt in range(2):
        cluster.revert()
        controller = cluster.wait_for_controller()
        assert cluster.create(f"reverted-{attempt}", controller) == 0
        for topic in ("before", "under-kraft"):
            cluster.wait(lambda: len(cluster.state(topic)["isr"]) == 3, "in ISRs")  # noqa: B023
            assert cluster.produce(topic, cluster.state(topic)["leader"]) == 0
        cluster.begin()
        cluster.wait_for_dual_write()
        assert f"reverted-{attempt}" in cluster.image().topics_by_name
        cluster.wait(lambda: same(cluster), "both say the same")
