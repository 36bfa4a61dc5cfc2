"""A running cluster leaves ZooKeeper under controllers of a quorum, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.broker.controller_client import broker_lifecycle
from barnabas.controller.migration_state import ZkMigrationState
from barnabas.raft.state_machine import CommittedBatch
from barnabas.types import Uuid
from barnabas.zookeeper.broker.quorum_registration import QuorumObserver
from barnabas.zookeeper.layout.uuid_text import uuid_to_text
from barnabas.zookeeper.migration.driver import MigrationPhase
from barnabas.zookeeper.operations import Create
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


@pytest.mark.parametrize(
    "phase",
    [
        MigrationPhase.WAIT_FOR_BROKERS,
        MigrationPhase.BECOME_CONTROLLER,
        MigrationPhase.ZK_MIGRATION,
        MigrationPhase.SYNC_KRAFT_TO_ZK,
        MigrationPhase.DUAL_WRITE,
    ],
)
def test_a_leader_that_dies_at_any_step_is_followed_by_one_that_finishes(
    phase: MigrationPhase,
) -> None:
    cluster = MigratingCluster()
    cluster.wait_for_controller()
    assert cluster.create("before", 1, partitions=4) == 0
    for node_id in CONTROLLERS:
        cluster.start_controller(node_id)
    for broker in (1, 2):
        cluster.enable(broker)
    died: list[int] = []

    def kill_leader() -> None:
        died.append(cluster.leader)
        cluster.kill_controller(cluster.leader)

    cluster.ambush = (phase, kill_leader)
    cluster.enable(3)
    cluster.wait(lambda: bool(died), f"no leader came to {phase}")
    cluster.wait_for_dual_write()
    cluster.wait(lambda: same(cluster), "both say the same")
    assert cluster.create("after", 2) == 0
    for topic in ("before", "after"):
        cluster.wait(lambda: whole(cluster, topic), "its replicas")  # noqa: B023
        assert cluster.produce(topic, leads(cluster, topic)) == 0


def test_the_former_controller_may_die_in_the_moment_of_the_takeover() -> None:
    cluster = MigratingCluster()
    former = cluster.wait_for_controller()
    assert cluster.create("before", 1) == 0
    for node_id in CONTROLLERS:
        cluster.start_controller(node_id)
    others = [broker for broker in (1, 2, 3) if broker != former]
    cluster.enable(former)
    cluster.enable(others[0])
    died: list[int] = []

    def kill_former() -> None:
        died.append(cluster.controller)
        cluster.kill(cluster.controller)

    cluster.ambush = (MigrationPhase.BECOME_CONTROLLER, kill_former)
    cluster.enable(others[1])
    cluster.wait(lambda: bool(died), "no controller took over")
    cluster.restart_migrating(died[0])
    cluster.wait_for_dual_write()
    cluster.wait(lambda: whole(cluster, "before"), "its replicas")
    assert cluster.produce("before", leads(cluster, "before")) == 0


def test_decisions_without_zookeeper_are_written_when_it_is_back() -> None:
    cluster = migrated()
    for server in cluster.ensemble.servers:
        server.kill()
    cluster.pass_time(2_000)
    assert cluster.create("meanwhile", 1) == 0
    for server in cluster.ensemble.servers:
        server.start()
    cluster.wait_for_dual_write()
    cluster.wait(lambda: "meanwhile" in cluster.children("/brokers/topics"), "its znode")
    cluster.wait(lambda: whole(cluster, "meanwhile"), "its replicas")
    cluster.wait(lambda: same(cluster), "both say the same")
    assert cluster.produce("meanwhile", leads(cluster, "meanwhile")) == 0


def test_a_topic_that_was_to_be_deleted_is_gone_after_the_takeover() -> None:
    cluster = MigratingCluster()
    controller = cluster.wait_for_controller()
    assert cluster.create("going", controller) == 0
    assert cluster.create("staying", controller) == 0
    for node_id in CONTROLLERS:
        cluster.start_controller(node_id)
    for broker in (1, 2):
        cluster.enable(broker)
    cluster.stop(3)
    assert cluster.delete("going", 1) == 0  # its replica on broker 3 holds it
    assert "going" in cluster.children("/admin/delete_topics")
    cluster.restart_migrating(3)
    cluster.wait_for_dual_write()
    cluster.wait(lambda: "going" not in cluster.children("/brokers/topics"), "its end")
    assert "going" not in cluster.image().topics_by_name
    assert cluster.children("/admin/delete_topics") == []
    assert cluster.create("going", 2) == 0


def test_a_migrating_broker_ends_with_its_first_failed_log_directory() -> None:
    cluster = migrated()
    assert cluster.create("wide", 2, partitions=6) == 0
    cluster.wait(lambda: whole(cluster, "wide"), "its replicas")
    lifecycle, process = cluster.broker_of(2).lifecycle, cluster.processes[2]
    process.run(lambda: lifecycle.on_directory_offline(Uuid(b"d" * 16)))
    assert not process.alive
    cluster.wait(lambda: 2 not in cluster.image().topics_by_name["wide"].leader, "others lead")


@pytest.fixture
def counts_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka 3.9's OffsetTrackingListener: base offset + number of batches, not the last offset."""

    def on_commit(self: QuorumObserver, batches: Sequence[CommittedBatch]) -> None:
        self.offset = batches[0].base_offset + len(batches)
        self._on_moved(False)

    monkeypatch.setattr(QuorumObserver, "on_commit", on_commit)


@pytest.mark.usefixtures("counts_batches")
def test_a_broker_that_counts_batches_reports_the_offset_of_an_idle_log() -> None:
    cluster = migrated()
    controller = cluster.controllers[cluster.leader].controller
    assert controller is not None
    assert cluster.create("wide", 2, partitions=12) == 0

    def reached(offset: int) -> bool:
        return all(session.metadata_offset >= offset for session in controller.sessions)

    written = controller.image.offset
    assert not reached(written)
    cluster.wait(lambda: reached(written), "every broker has reported the offset")
    cluster.wait(lambda: reached(controller.image.offset), "the log is idle again")
    settled = controller.image.offset
    cluster.pass_time(20_000)
    assert controller.image.offset == settled


@pytest.mark.usefixtures("counts_batches")
def test_a_controlled_shutdown_ends_among_brokers_that_count_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker_lifecycle, "LEAVE_MS_MAX", 300_000.0)  # as long as Kafka's waits
    cluster = migrated()
    assert cluster.create("wide", 2, partitions=12) == 0
    cluster.wait(lambda: whole(cluster, "wide"), "its replicas")
    cluster.stop(2)
    assert cluster.image().brokers[2].fenced


def test_a_topic_that_an_old_tool_makes_in_the_takeover_gets_an_id() -> None:
    """No controller is left then that could give it one."""
    cluster = MigratingCluster()
    cluster.wait_for_controller()
    for node_id in CONTROLLERS:
        cluster.start_controller(node_id)
    for broker in (1, 2):
        cluster.enable(broker)
    made = Create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2,3]}}')
    answers: list[object] = []

    def make() -> None:
        answers.append(cluster.znode(made))

    cluster.ambush = (MigrationPhase.BECOME_CONTROLLER, make)
    cluster.enable(3)
    cluster.wait_for_dual_write()
    assert len(answers) == 1
    cluster.wait(lambda: same(cluster), "both say the same")
    topic = cluster.read("/brokers/topics/t")
    assert topic is not None
    assert topic["topic_id"] == uuid_to_text(cluster.image().topics_by_name["t"].id)
    assert cluster.produce("t", leads(cluster, "t")) == 0
