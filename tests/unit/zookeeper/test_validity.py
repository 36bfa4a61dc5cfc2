"""Machines of ZooKeeper mode and of the migration assert their states: what cannot be is not passed over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.broker.controller_client.broker_lifecycle import LifecyclePhase
from barnabas.controller.migration_state import ZkMigrationState
from barnabas.types import Endpoint
from barnabas.zookeeper.broker.registration import OwnZnode, ZookeeperRegistration
from barnabas.zookeeper.controller.order_queue import OrderQueue, QueueState
from barnabas.zookeeper.migration.driver import Migration, MigrationPhase
from barnabas.zookeeper.migration.pending_work import Work
from tests.unit.zookeeper.migrating_cluster import MigratingCluster
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

AT = Endpoint("b", 9092)


def served(queue: OrderQueue) -> OrderQueue:
    """A queue of which everything was sent and answered."""
    queue.begun, queue.brokers_changed = True, False
    return queue


def test_an_order_that_nothing_will_send_is_found() -> None:
    queue = served(OrderQueue(2, 10, AT))
    queue.validate()
    queue.stopped["t", 0] = None
    with pytest.raises(AssertionError, match="nothing will send"):
        queue.validate()
    queue.on_sent()
    queue.validate()


def test_a_queue_sends_one_order_at_a_time() -> None:
    queue = OrderQueue(2, 10, AT)
    queue.on_sent()
    with pytest.raises(AssertionError, match="may not become"):
        queue.on_sent()


def test_an_answer_to_a_closed_queue_is_of_no_interest() -> None:
    queue = OrderQueue(2, 10, AT)
    queue.on_sent()
    queue.close()
    assert not queue.on_answer()
    with pytest.raises(AssertionError, match="may not become"):
        queue.close()
    assert queue.state is QueueState.CLOSED


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (MigrationPhase.ZK_MIGRATION, ZkMigrationState.MIGRATION),
        (MigrationPhase.SYNC_KRAFT_TO_ZK, ZkMigrationState.PRE_MIGRATION),
        (MigrationPhase.DUAL_WRITE, ZkMigrationState.NONE),
        (MigrationPhase.WAIT_FOR_BROKERS, ZkMigrationState.MIGRATION),
    ],
)
def test_a_phase_of_the_takeover_fits_what_the_log_says(
    phase: MigrationPhase, state: ZkMigrationState
) -> None:
    with pytest.raises(AssertionError):
        Migration(phase, 3, state).validate()


def test_a_takeover_that_is_inactive_waits_for_nothing() -> None:
    Migration().validate()
    with pytest.raises(AssertionError):
        Migration(waits_for=("broker 1 is missing",)).validate()
    with pytest.raises(AssertionError):
        replace(Migration(), phase=MigrationPhase.BECOME_CONTROLLER).validate()


@pytest.mark.slow
def test_a_registration_without_znode_has_no_epoch() -> None:
    cluster = ZookeeperCluster(brokers=1)
    lifecycle = cluster.nodes[1].broker.lifecycle  # type: ignore[union-attr]
    assert isinstance(lifecycle, ZookeeperRegistration)
    assert lifecycle.phase is LifecyclePhase.RUNNING
    lifecycle.validate()
    lifecycle.znode = OwnZnode.CREATING
    with pytest.raises(AssertionError, match="creating"):
        lifecycle.validate()


@pytest.mark.slow
def test_a_migration_with_a_claim_neither_waits_nor_collects_for_nothing() -> None:
    cluster = MigratingCluster()
    cluster.begin()
    cluster.wait_for_dual_write()
    migration = cluster.controllers[cluster.leader].migrating
    assert migration is not None
    migration.validate()
    running = migration.migration  # type: ignore[attr-defined]
    running.work.kind = Work.WAITING
    with pytest.raises(AssertionError):
        migration.validate()
    running.work.kind = Work.NONE
    running._leadership = None
    with pytest.raises(AssertionError):
        migration.validate()
