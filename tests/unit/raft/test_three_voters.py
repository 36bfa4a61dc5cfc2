"""Three voters on simulated machines elect, replicate, commit, survive and catch up."""

from __future__ import annotations

import pytest

from barnabas.raft.core import effects as do
from barnabas.raft.core import events as on
from barnabas.raft.core.states import Leader
from barnabas.raft.runtime.deadline_timer import NEVER
from tests.unit.raft.quorum_world import Quorum


def test_three_voters_elect_one_leader_soon_after_they_start() -> None:
    quorum = Quorum()
    quorum.start()
    took = quorum.run_until(lambda: quorum.active() is not None)
    assert took < 500
    assert len([n for n in quorum.up() if n.replica and n.replica.is_active]) == 1


def test_committed_entries_reach_every_replica_in_order() -> None:
    quorum = Quorum(observers=2)
    quorum.start()
    for number in range(20):
        quorum.commit(b"%d" % number)
    quorum.settle()
    for node in quorum.nodes.values():
        assert node.journal.values == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_leader_is_replaced_in_well_under_a_second(seed: int) -> None:
    quorum = Quorum(seed)
    quorum.start()
    quorum.commit(b"before")
    leader = quorum.elect()
    leader.kill()
    took = quorum.run_until(lambda: quorum.active() is not None)
    assert took < 300
    quorum.commit(b"after")
    leader.start()
    quorum.settle()
    for node in quorum.nodes.values():
        assert node.journal.values == [b"before", b"after"]


@pytest.mark.parametrize("seed", range(5))
def test_voters_that_were_restarted_know_their_leader_and_notice_its_death(seed: int) -> None:
    """In its epoch, which continues: they remember who leads."""
    quorum = Quorum(seed)
    quorum.start()
    quorum.commit(b"before")
    leader = quorum.elect()
    others = [node for node in quorum.nodes.values() if node is not leader]
    for node in others:
        node.kill()
        quorum.world.run(quorum.world.now_ms + 100)
        node.start()
        quorum.settle()
    assert quorum.active() is leader
    assert [node.journal.leader[0] for node in others] == [leader.id, leader.id]
    leader.kill()
    assert quorum.run_until(lambda: quorum.active() is not None) < 300


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_whole_cluster_that_restarts_keeps_what_was_committed(power_loss: bool) -> None:
    quorum = Quorum(3)
    quorum.start()
    for number in range(10):
        quorum.commit(b"%d" % number)
    for node in quorum.nodes.values():
        node.kill(power_loss=power_loss)
    quorum.start()
    quorum.commit(b"10")
    quorum.settle()
    for node in quorum.nodes.values():
        assert node.journal.values == [b"%d" % number for number in range(11)]


def test_a_leader_that_shuts_down_hands_over_at_once() -> None:
    quorum = Quorum(4)
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect()
    assert leader.replica is not None
    done: list[bool] = []
    leader.replica.shutdown(lambda: done.append(True))
    quorum.run_until(lambda: bool(done))
    leader.kill()
    took = quorum.run_until(lambda: quorum.active() is not None)
    assert took < 300


def test_a_silent_host_keeps_no_leader_busy() -> None:
    """It is owed a BeginQuorumEpoch, which cannot be sent before the last one has timed out."""
    quorum = Quorum()
    quorum.start()
    leader = quorum.elect()
    assert leader.replica is not None
    silent = next(node for node in quorum.nodes if node != leader.id)
    for node in set(quorum.nodes) - {silent}:
        quorum.network.cut(f"n{node}", f"n{silent}")
        quorum.network.cut(f"n{silent}", f"n{node}")
    quorum.world.run(quorum.world.now_ms + 5_000)
    machine, ticks = leader.replica.machine, 0
    step = machine.step

    def counted(event: on.Event, now_ms: float) -> tuple[do.Effect, ...]:
        nonlocal ticks
        ticks += isinstance(event, on.Tick)
        return step(event, now_ms)

    machine.step = counted  # type: ignore[method-assign]
    quorum.world.run(quorum.world.now_ms + 10_000)
    assert isinstance(machine.state, Leader)
    assert ticks < 300


def test_an_empty_replica_gets_the_snapshot_of_a_leader_with_the_whole_log() -> None:
    quorum = Quorum(voters=3, observers=1, bytes_between_snapshots=1_500)
    for node in (1, 2, 3):
        quorum.nodes[node].start()
    for number in range(40):
        quorum.commit(b"%90d" % number)
    leader, beginner = quorum.elect(), quorum.nodes[4]
    log = leader.replica.machine.log if leader.replica else None
    assert log is not None and log.start_offset == 0 and log.latest_snapshot is not None
    beginner.start()
    quorum.settle()
    assert beginner.installed == 1 and beginner.replica is not None
    assert beginner.replica.machine.log.start_offset > 0
    assert beginner.journal.values == leader.journal.values


def test_a_fault_of_the_state_machine_stops_no_timers() -> None:
    quorum = Quorum()
    quorum.start()
    leader = quorum.elect()
    assert leader.replica is not None
    follower = next(node for node in quorum.up() if node is not leader)
    assert follower.replica is not None

    def fails(batches: object) -> None:
        raise ZeroDivisionError

    follower.journal.on_commit = fails  # type: ignore[method-assign]
    leader.replica.append([b"1"])
    with pytest.raises(ZeroDivisionError):
        quorum.world.run(quorum.world.now_ms + 1_000)
    alarm = follower.replica._timer
    alarm.at_ms = NEVER  # it rings
    with pytest.raises(ZeroDivisionError):
        follower.replica.step(on.Tick())
    assert alarm.at_ms < NEVER
