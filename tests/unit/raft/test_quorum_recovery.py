"""One surviving directory becomes the quorum, and the log remembers that it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.raft.core.batches import control_batch, control_records
from barnabas.raft.core.election_state import FILE_NAME, ElectionState
from barnabas.raft.quorum_recovery import RecoveryRefusedError, assess, recover, recoveries
from barnabas.raft.storage.bootstrap import BootstrappedReplica, open_replica
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.record.builder import ControlType
from barnabas.sim.world.world import START_WALL_MS
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leader_change_message import LeaderChangeMessage, Voter
from tests.unit.raft.quorum_world import Quorum, QuorumNode


def _lose_majority(quorum: Quorum) -> QuorumNode:
    """All die; the survivor is a follower."""
    quorum.start()
    quorum.commit(b"1")
    quorum.settle()
    survivor = next(n for n in quorum.nodes.values() if n is not quorum.elect())
    for node in quorum.nodes.values():
        node.kill()
    return survivor


@pytest.mark.slow
def test_the_survivor_of_a_dynamic_quorum_leads_alone_and_others_join_it() -> None:
    quorum = Quorum(first_voters=3)
    survivor = _lose_majority(quorum)
    disk = survivor.machine.disk.open_for_process()
    found = assess(disk, survivor.settings, "/data")
    assert found.may_lack_committed
    assert "is lost" in " ".join(found.sentences())
    recover(disk, survivor.settings, "/data", START_WALL_MS, "test")
    survivor.start()
    quorum.commit(b"2")
    assert survivor.journal.values == [b"1", b"2"]
    survivor.kill()
    opened = open_replica(disk, survivor.settings, "/data")
    [(_, mark)] = recoveries(opened)
    assert mark.startswith("test; from ")
    assert list(opened.history.voters) == [survivor.id]
    assert {change.version for change in leader_changes(opened)} == {0}


def test_one_of_two_voters_may_have_been_removed_by_the_other() -> None:
    quorum = Quorum(voters=2, first_voters=2)
    quorum.start()
    quorum.commit(b"1")
    quorum.settle()
    lost = quorum.elect()
    survivor = next(n for n in quorum.nodes.values() if n is not lost)
    survivor.kill()
    assert quorum.remove_voter(survivor.id).error is ErrorCode.NONE
    quorum.commit(b"committed without it")
    lost.kill()
    disk = survivor.machine.disk.open_for_process()
    found = assess(disk, survivor.settings, "/data")
    assert found.voters == (1, 2)
    assert found.may_lack_committed and "is lost" in " ".join(found.sentences())


def one_voter_dies(quorum: Quorum) -> tuple[QuorumNode, QuorumNode]:
    """(the observer, the voter that will be what is left): something was committed before."""
    quorum.start()
    quorum.commit(b"1")
    quorum.settle()
    broker = quorum.nodes[4]
    survivor = next(n for n in quorum.up() if n not in (quorum.elect(), broker))
    survivor.kill()
    return broker, survivor


@pytest.mark.parametrize("elections, values", [(1, 1), (5, 0)])
def test_brokers_follow_whatever_epochs_the_lost_majority_had(elections: int, values: int) -> None:
    """The survivor heard of none of them; a broker may have records of the very next one."""
    quorum = Quorum(3, observers=1, first_voters=3)
    broker, survivor = one_voter_dies(quorum)
    for _ in range(elections):
        leader = quorum.elect().replica
        assert leader is not None
        epoch = leader.epoch
        leader.resign("test")
        quorum.run_until(lambda e=epoch: (a := quorum.active()) is not None and a.replica.epoch > e)  # type: ignore[misc,union-attr]
    for _ in range(values):
        quorum.commit(b"lost")
    quorum.settle()
    for node in quorum.nodes.values():
        node.kill()
    disk = survivor.machine.disk.open_for_process()
    recover(disk, survivor.settings, "/data", START_WALL_MS, "test")
    survivor.start()
    broker.start()
    for number in range(3):
        quorum.commit(b"new %d" % number)
    quorum.settle()
    assert broker.journal.values == survivor.journal.values == [b"1", b"new 0", b"new 1", b"new 2"]


def test_a_broker_with_a_snapshot_of_what_is_lost_says_what_has_to_be_removed() -> None:
    quorum = Quorum(observers=1, first_voters=3, bytes_between_snapshots=1_500)
    broker, survivor = one_voter_dies(quorum)
    for number in range(40):
        quorum.commit(b"lost %90d" % number)
    quorum.settle()
    quorum.world.run(quorum.world.now_ms + 500)
    for node in quorum.nodes.values():
        node.kill()
    disk = survivor.machine.disk.open_for_process()
    found = assess(disk, survivor.settings, "/data")
    assert f"after its {DIRECTORY} is removed" in " ".join(found.sentences())
    recover(disk, survivor.settings, "/data", START_WALL_MS, "test")
    survivor.start()
    for attempt in range(2):
        broker.start()
        quorum.run_until(lambda n=attempt: len(quorum.halts) > n)  # type: ignore[misc]
    assert quorum.halts[1].endswith(f"this node follows once its {DIRECTORY} is removed")
    own = broker.machine.disk.open_for_process()
    for name in own.list_dir(f"/data/{DIRECTORY}"):
        own.remove(f"/data/{DIRECTORY}/{name}")
    broker.start()
    quorum.commit(b"2")
    quorum.settle()
    assert broker.journal.values == survivor.journal.values == [b"1", b"2"]


def test_a_broker_ahead_that_hears_of_a_snapshot_first_ends_as_well() -> None:
    """It stood still until the new quorum had a snapshot, and nothing of the log before that: it waited in
    silence for one that is further ahead than what it has applied."""
    quorum = Quorum(observers=1, first_voters=3, bytes_between_snapshots=1_500, retention_bytes=0)
    broker, survivor = one_voter_dies(quorum)
    for number in range(15):
        quorum.commit(b"lost %d" % number)
    quorum.settle()
    assert broker.process is not None and broker.replica is not None
    ahead = broker.replica.high_watermark
    broker.process.pause(4_000)
    for node in quorum.nodes.values():
        if node is not broker:
            node.kill()
    disk = survivor.machine.disk.open_for_process()
    recover(disk, survivor.settings, "/data", START_WALL_MS, "test")
    survivor.start()
    for number in range(8):
        quorum.commit(b"new %200d" % number)
    quorum.world.run(quorum.world.now_ms + 1_000)
    log = survivor.replica.machine.log if survivor.replica is not None else None
    assert log is not None and 0 < log.start_offset <= log.end_offset < ahead
    quorum.run_until(lambda: bool(quorum.halts))
    broker.start()
    quorum.settle()
    assert broker.journal.values == survivor.journal.values


def leader_changes(opened: BootstrappedReplica) -> list[LeaderChangeMessage]:
    """All that stand in its log. Apache Kafka 4.3 reads version 0 and dies of the other."""
    found = [message for _, records in opened.controls for _, message in records]
    return [message for message in found if isinstance(message, LeaderChangeMessage)]


def test_leaders_of_a_dynamic_quorum_announce_themselves_as_kafka_reads_it() -> None:
    quorum = Quorum(first_voters=3)
    survivor = _lose_majority(quorum)
    opened = open_replica(survivor.machine.disk.open_for_process(), survivor.settings, "/data")
    assert opened.history.kraft_version == 1
    [change] = leader_changes(opened)
    assert change.version == 0
    assert [voter.voter_id for voter in change.voters] == [1, 2, 3]
    assert len(change.granting_voters) >= 2


def test_announcements_with_directories_are_read_as_they_were_once_written() -> None:
    voter = Voter(voter_id=1, voter_directory_id=Uuid(b"d" * 16))
    written = LeaderChangeMessage(version=1, leader_id=1, voters=[voter], granting_voters=[voter])
    batch = control_batch([(ControlType.LEADER_CHANGE, written)], 7, 3, START_WALL_MS)
    [(_, read)] = control_records(batch)
    assert isinstance(read, LeaderChangeMessage)
    assert (read.leader_id, read.voters) == (1, [voter])


def test_the_survivor_of_a_static_quorum_leads_by_its_changed_configuration() -> None:
    quorum = Quorum()
    survivor = _lose_majority(quorum)
    disk = survivor.machine.disk.open_for_process()
    recover(disk, survivor.settings, "/data", START_WALL_MS, "test")
    alone = {survivor.id: survivor.settings.static_voters[survivor.id]}
    survivor.settings = replace(survivor.settings, static_voters=alone)
    survivor.start()
    quorum.commit(b"2")
    assert survivor.journal.values == [b"1", b"2"]


def test_a_directory_without_a_log_is_refused() -> None:
    quorum = Quorum()
    node = quorum.nodes[1]
    disk = node.machine.disk.open_for_process()
    with pytest.raises(RecoveryRefusedError, match="nothing to recover"):
        assess(disk, node.settings, "/data")


def test_a_survivor_that_is_no_voter_is_refused() -> None:
    quorum = Quorum()
    survivor = _lose_majority(quorum)
    disk = survivor.machine.disk.open_for_process()
    settings = replace(survivor.settings, static_voters={})
    with pytest.raises(RecoveryRefusedError, match="does not name node"):
        assess(disk, settings, "/data")


def test_an_epoch_that_leaves_no_room_is_refused_before_anything_is_written() -> None:
    """It was not written by a quorum: the recovery ended in the middle."""
    quorum = Quorum()
    survivor = _lose_majority(quorum)
    disk = survivor.machine.disk.open_for_process()
    state = f"/data/{DIRECTORY}/{FILE_NAME}"
    content = ElectionState(2**31 - 5).to_json(0, [1, 2, 3])
    disk.write_atomic(state, content)
    with pytest.raises(RecoveryRefusedError, match="leaves no room"):
        recover(disk, survivor.settings, "/data", START_WALL_MS, "test")
    assert disk.read_file(state) == content
    disk.remove(state)
    recover(disk, survivor.settings, "/data", START_WALL_MS, "test")


def test_a_refusal_of_the_state_machine_is_reported_by_the_dry_run() -> None:
    survivor = _lose_majority(Quorum())
    disk = survivor.machine.disk.open_for_process()

    def refuses(opened: BootstrappedReplica) -> list[list[bytes]]:
        raise RecoveryRefusedError(f"cannot read {opened.directory}")

    with pytest.raises(RecoveryRefusedError, match="cannot read"):
        assess(disk, survivor.settings, "/data", refuses)
