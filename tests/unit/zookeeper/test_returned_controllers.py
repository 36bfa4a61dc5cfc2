"""Controllers that migrated a cluster return after others have ruled: they refuse, and overwrite nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    MIGRATION,
    ControllerEpochZnode,
    ControllerZnode,
    MigrationZnode,
)
from barnabas.zookeeper.migration import claim
from barnabas.zookeeper.migration.driver import MigrationPhase
from barnabas.zookeeper.migration.progress import progress_of
from barnabas.zookeeper.node.migrating_controller import MigratingController
from barnabas.zookeeper.operations import Delete, GetData, NodeData, Operation, Stat
from tests.unit.zookeeper.migrating_cluster import CONTROLLERS, MigratingCluster
from tests.unit.zookeeper.test_online_migration import migrated, same, whole

RULED = "another controller has ruled since"
GONE = "/migration is gone"


def write(cluster: MigratingCluster, operation: Operation) -> None:
    assert not isinstance(cluster.znode(operation), ZooKeeperError)


def go_back_by_hand(cluster: MigratingCluster, *deleted: str) -> None:
    """Controllers are stopped, and keep their directories; `deleted` znodes go."""
    for node_id in list(cluster.controllers):
        cluster.kill_controller(node_id)
    for path in deleted:
        write(cluster, Delete(path))
    cluster.wait_for_controller()
    for broker in sorted(cluster.nodes):
        cluster.stop(broker)
        cluster.start(broker)
        cluster.wait(lambda: cluster.nodes[broker].is_ready, f"broker {broker} is ready")  # noqa: B023


def rule_meanwhile(cluster: MigratingCluster) -> None:
    assert cluster.delete("before", cluster.wait_for_controller()) == 0
    cluster.wait(lambda: "before" not in cluster.children("/brokers/topics"), "its end")
    assert cluster.create("meanwhile", cluster.wait_for_controller(), partitions=2) == 0


def wait_for_refusal(cluster: MigratingCluster, why: str) -> None:
    def refuses() -> bool:
        if cluster.leader < 0:
            return False
        migrating = cluster.controllers[cluster.leader]._migrating
        assert migrating is not None
        assert isinstance(migrating, MigratingController)
        return any(why in sentence for sentence in migrating.migration.migration.waits_for)

    cluster.wait(refuses, "the leader of the quorum refuses")


def check_nothing_is_done(cluster: MigratingCluster) -> None:
    cluster.pass_time(10_000)
    assert cluster.phase() is MigrationPhase.BECOME_CONTROLLER
    found = cluster.read("/controller")
    assert found is not None and found["brokerid"] in (1, 2, 3)
    assert sorted(cluster.children("/brokers/topics")) == ["meanwhile"]
    for index in range(2):
        state = cluster.read_versioned("meanwhile", index)
        assert state is not None and state[0] in (1, 2, 3)
    assert cluster.produce("meanwhile", cluster.state("meanwhile")["leader"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deleted", "why"), [([CONTROLLER], RULED), ([CONTROLLER, MIGRATION], GONE)]
)
def test_the_same_controllers_refuse_and_a_new_attempt_succeeds(
    deleted: list[str], why: str
) -> None:
    cluster = migrated()
    go_back_by_hand(cluster, *deleted)
    rule_meanwhile(cluster)
    cluster.begin()
    wait_for_refusal(cluster, why)
    check_nothing_is_done(cluster)
    leader = cluster.controllers[cluster.leader].controller
    assert leader is not None
    notes = [note.reason for note in leader.refusals.since() if note.subject == "migration"]
    assert len(notes) == len(set(notes)) and why in notes[0]  # not said again at each trial
    cluster.kill_controller(cluster.leader)  # the next leader refuses, too
    wait_for_refusal(cluster, why)
    check_nothing_is_done(cluster)
    # -- the way out
    for node_id in list(cluster.controllers):
        cluster.kill_controller(node_id)
    for node_id in CONTROLLERS:
        cluster.machines[f"c{node_id}"].start_process().disk.remove_tree("/meta")
    if MIGRATION not in deleted:
        write(cluster, Delete(MIGRATION))
    cluster.begin()
    cluster.wait_for_dual_write()
    cluster.wait(lambda: same(cluster), "both say the same")
    assert "meanwhile" in cluster.image().topics_by_name
    assert "before" not in cluster.image().topics_by_name


@pytest.mark.slow
@pytest.mark.parametrize("elections", [0, 3])
def test_brokers_that_observe_the_former_quorum_take_over_a_new_one(elections: int) -> None:
    """Its epochs begin again at 0; ids and addresses are the same, and no broker restarts."""
    cluster = migrated()
    for _ in range(elections):
        leader = cluster.leader
        cluster.kill_controller(leader)
        cluster.wait(lambda: cluster.leader not in (-1, leader), "another leader")  # noqa: B023
        cluster.start_controller(leader)
    cluster.wait_for_dual_write()
    for node_id in list(cluster.controllers):
        cluster.kill_controller(node_id)
    for path in (CONTROLLER, MIGRATION):
        write(cluster, Delete(path))
    for node_id in CONTROLLERS:
        cluster.machines[f"c{node_id}"].start_process().disk.remove_tree("/meta")
        cluster.start_controller(node_id)
    cluster.wait_for_dual_write()
    cluster.wait(lambda: same(cluster), "both say the same")
    assert cluster.create("meanwhile", 2) == 0
    cluster.wait(lambda: whole(cluster, "meanwhile"), "the whole ISR")
    for node in cluster.nodes.values():
        enrolment = node._enrolment
        assert enrolment is not None
        cluster.wait(lambda: enrolment.quorum.leader_id == cluster.leader, "it follows")  # noqa: B023


@pytest.mark.slow
def test_controllers_that_all_restart_in_dual_write_continue() -> None:
    cluster = migrated()
    for node_id in list(cluster.controllers):
        cluster.kill_controller(node_id)
    for broker in (1, 2):
        cluster.processes[broker].kill()
        cluster.nodes.pop(broker)
    cluster.pass_time(3_000)
    for node_id in CONTROLLERS:
        cluster.start_controller(node_id)
    cluster.wait_for_dual_write()
    for broker in (1, 2):
        cluster.restart_migrating(broker)
    assert cluster.create("after", 2) == 0
    cluster.wait(lambda: same(cluster), "both say the same")


@pytest.mark.slow
def test_a_claim_that_is_lost_while_the_controllers_run_is_not_taken_back() -> None:
    cluster = migrated()
    write(cluster, Delete(CONTROLLER))
    cluster.wait_for_controller()
    assert cluster.create("meanwhile", cluster.wait_for_controller(), partitions=2) == 0
    cluster.processes[3].kill()  # of which the quorum learns: it has something to write
    cluster.nodes.pop(3)
    wait_for_refusal(cluster, RULED)
    cluster.pass_time(5_000)
    assert "meanwhile" in cluster.children("/brokers/topics")


# -- by the znodes alone ---------------------------------------------------------------------------


def node(data: bytes, changed: int, made: int = 1, owner: int = 0) -> NodeData:
    return NodeData(data, Stat(made, changed, 0, 0, 3, 0, 0, owner, len(data), 0, 0))


def znodes(epoch_at: int, mark_at: int, **more: NodeData) -> dict[str, NodeData]:
    found = {
        CONTROLLER_EPOCH: node(ControllerEpochZnode(7).encode(), epoch_at),
        MIGRATION: node(MigrationZnode(101, 5, 40, 5).encode(), mark_at),
    }
    return found | {f"/{name}": value for name, value in more.items()}


def held(kraft_epoch: int, made: int, owner: int = 0) -> NodeData:
    return node(ControllerZnode(101, 0, kraft_epoch).encode(), made, made, owner)


@pytest.mark.parametrize(
    ("epoch", "has_copy", "why"),
    [
        (6, True, ""),
        (5, True, ""),
        (4, True, "another quorum migrates these znodes"),
        (9, False, "another quorum has migrated these znodes"),
    ],
)
def test_a_mark_of_another_quorum_is_refused(epoch: int, has_copy: bool, why: str) -> None:
    found = znodes(10, 10)
    if not why:
        claim.take(found, 102, epoch, 0, has_copy=has_copy)
        return
    with pytest.raises(claim.ClaimRefusedError, match=why):
        claim.take(found, 102, epoch, 0, has_copy=has_copy)


def test_a_claim_that_has_copied_nothing_is_taken_over() -> None:
    found = znodes(10, 10) | {MIGRATION: node(MigrationZnode(101, 5, -1, -1).encode(), 10)}
    claim.take(found, 102, 6, 0)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (znodes(10, 10), ""),
        (znodes(10, 15, controller=held(5, 10)), ""),
        (znodes(10, 15), ""),
        (znodes(16, 15), RULED),
        (znodes(16, 15, controller=held(-1, 16, owner=99)), RULED),
        # A controller of Apache Kafka has claimed, and has written nothing else.
        (znodes(16, 15, controller=held(6, 16)), ""),
        # One of a former claim of the quorum is there, and the epoch was raised later.
        (znodes(16, 15, controller=held(6, 12)), RULED),
        (znodes(16, 15, controller=held(4, 16)), RULED),
        ({CONTROLLER_EPOCH: node(b"7", 10)}, GONE),
    ],
)
def test_the_znode_that_was_written_last_decides(found: dict[str, NodeData], why: str) -> None:
    said = claim.why_out_of_date(found)
    assert why in said if why else said == ""


@pytest.mark.parametrize("controller", [None, held(-1, 16, owner=99)])
@pytest.mark.parametrize("epoch", [1, 6])
def test_a_log_without_the_copy_may_claim_what_was_left_before_others_ruled(
    epoch: int, controller: NodeData | None
) -> None:
    """A new attempt's quorum begins in epoch 1, whatever the epoch of what was left. It leaves no offset of
    the other log: a second controller of it claims, too."""
    found = znodes(16, 15) if controller is None else znodes(16, 15, controller=controller)
    _, claimed = claim.take(found, 101, epoch, 0)
    assert claimed.migration == MigrationZnode(101, epoch, -1, -1)
    again = znodes(20, 20, controller=held(epoch, 20))
    again[MIGRATION] = node(claimed.migration.encode(), 20)
    claim.take(again, 102, epoch + 1, 0)
    with pytest.raises(claim.ClaimRefusedError, match=RULED):
        claim.take(found, 101, 6, 0, has_copy=True)


def test_a_log_without_the_copy_claims_nothing_that_another_quorum_holds() -> None:
    """Its claim is a transaction without `/migration`, as Apache Kafka's."""
    found = znodes(16, 15, controller=held(6, 16))
    with pytest.raises(claim.ClaimRefusedError, match="another quorum migrates") as refused:
        claim.take(found, 101, 1, 0)
    assert "migrate start" in str(refused.value)


@pytest.mark.slow
def test_the_status_says_why_the_quorum_refuses() -> None:
    cluster = migrated()
    image, found = cluster.image(), {p: cluster.znode(GetData(p)) for p in claim.PATHS}
    good: Callable[[], bool] = lambda: progress_of(found, image, "").missing == ()  # noqa: E731
    assert good()
    later = max(node.stat.mzxid for node in found.values()) + 1
    epoch = found[CONTROLLER_EPOCH]
    found[CONTROLLER_EPOCH] = NodeData(epoch.data, epoch.stat._replace(mzxid=later))
    progress = progress_of(found, image, "")
    assert progress.phase == MigrationPhase.BECOME_CONTROLLER.value
    assert RULED in progress.missing[0] and "migrate start" in progress.missing[0]
