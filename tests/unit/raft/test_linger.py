"""``controller.quorum.append.linger.ms``: how long the first proposal of a batch waits for others."""

from __future__ import annotations

import random

import pytest

from barnabas.raft.raft_node import RaftNode
from tests.unit.raft.chaos import Checker
from tests.unit.raft.quorum_world import Quorum

LINGER_MS = 40


def quorum_of(seed: int = 1, **settings: int) -> tuple[Quorum, RaftNode]:
    quorum = Quorum(seed, **settings)
    quorum.start()
    replica = quorum.elect().replica
    assert replica is not None
    return quorum, replica


def end_of_log(replica: RaftNode) -> int:
    """Without what waits."""
    return replica.machine.log.end_offset


def test_proposals_of_one_linger_travel_in_one_batch() -> None:
    quorum, replica = quorum_of(append_linger_ms=LINGER_MS)
    quorum.world.run(quorum.world.now_ms + 200)  # its voters have told it of themselves
    began, end = quorum.world.now_ms, end_of_log(replica)
    offsets = []
    for number in range(4):
        offsets.append(replica.append([b"%d" % number]))
        quorum.world.run(quorum.world.now_ms + 5)
    assert offsets == [end, end + 1, end + 2, end + 3]
    assert end_of_log(replica) == end
    quorum.run_until(lambda: replica.applied_offset > offsets[-1])
    assert LINGER_MS <= quorum.world.now_ms - began < LINGER_MS + 10
    ends = [last for last, _ in quorum.elect().journal.ends]
    assert [offset for offset in offsets if offset in ends] == offsets[-1:]


def test_a_proposal_without_a_linger_does_not_wait() -> None:
    quorum, replica = quorum_of()
    began = quorum.world.now_ms
    offset = replica.append([b"now"])
    quorum.run_until(lambda: replica.applied_offset > offset)
    assert quorum.world.now_ms - began < 10


def test_a_full_batch_waits_for_nothing() -> None:
    quorum, replica = quorum_of(append_linger_ms=LINGER_MS, batch_bytes_max=1000)
    end = end_of_log(replica)
    replica.append([b"x" * 600])
    assert end_of_log(replica) == end
    assert replica.append([b"y" * 600]) == end + 1
    quorum.world.run(quorum.world.now_ms)
    assert end_of_log(replica) == end + 1  # the first has gone, the second waits


def test_a_change_of_voters_goes_behind_what_waits() -> None:
    quorum = Quorum(voters=4, first_voters=3, append_linger_ms=60_000)
    quorum.start()
    replica = quorum.elect().replica
    assert replica is not None
    offset = replica.append([b"before"])
    assert quorum.add_voter(4).error == 0
    assert replica.machine.history.voters_offset is not None
    assert replica.machine.history.voters_offset > offset
    assert replica.applied_offset > offset


def test_a_former_leader_forgets_the_batches_that_waited() -> None:
    quorum, replica = quorum_of(append_linger_ms=60_000)
    leader = quorum.elect()
    replica.append([b"never"])
    for other in quorum.nodes.values():
        if other is not leader:
            quorum.network.cut(other.machine.host, leader.machine.host)
    quorum.run_until(lambda: not replica.is_active)
    assert replica.log_end_offset == end_of_log(replica)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_offsets_hold_whatever_happens_while_proposals_wait(seed: int) -> None:
    """What is applied at an offset is what was proposed for it in that epoch."""
    quorum = Quorum(seed, append_linger_ms=15)
    Checker(quorum)
    quorum.start()
    rng = random.Random(seed)
    proposed: dict[tuple[int, int], bytes] = {}
    for number in range(60):
        replica = quorum.elect().replica
        assert replica is not None
        epoch, offset = replica.epoch, replica.append([b"%d" % number])
        quorum.world.run(quorum.world.now_ms + rng.uniform(0, 12))
        if rng.random() < 0.1:
            replica.resign("a test wants it")
        proposed[epoch, offset] = b"%d" % number
    quorum.settle()
    journal = quorum.elect().journal
    epochs = dict(journal.ends)
    applied = 0
    for (epoch, offset), value in proposed.items():
        last = min(last for last in epochs if last >= offset)
        if epochs[last] == epoch and offset in journal.at:
            assert journal.at[offset] == value
            applied += 1
    assert applied > len(proposed) // 2
