"""One surviving directory becomes the quorum, and the log remembers that it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.raft.opening import open_replica
from barnabas.raft.recovery import RecoveryRefusedError, assess, recover, recoveries
from barnabas.sim.world import START_WALL_MS
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
