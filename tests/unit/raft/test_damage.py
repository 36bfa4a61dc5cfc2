"""A metadata log that stops to be sound: what a crash tore is cut, what was on disk is not lost silently."""

from __future__ import annotations

import pytest

from barnabas.raft.damage import DamagedLogError, marked_offset
from barnabas.raft.opening import open_replica
from barnabas.raft.recovery import assess, recover
from barnabas.sim.world import START_WALL_MS
from tests.unit.raft.quorum_world import Quorum, QuorumNode

LOG = "/data/__cluster_metadata-0/00000000000000000000.log"
MARK = "/data/__cluster_metadata-0/recovery-point-offset-checkpoint"


def lone_voter(*, values: int = 20, every_ms: float = 200.0, **settings: int) -> QuorumNode:
    """Has committed `values` and was killed."""
    quorum = Quorum(voters=1, first_voters=1, **settings)
    node = quorum.nodes[1]
    node.start()
    for number in range(values):
        quorum.commit(b"%d" % number)
        quorum.world.run(quorum.world.now_ms + every_ms)
    node.kill()
    return node


def content(node: QuorumNode, path: str = LOG) -> bytes:
    return bytes(node.machine.disk.content(path))


def test_the_only_voter_does_not_start_without_what_was_on_its_disk() -> None:
    node = lone_voter()
    node.machine.disk.rot(LOG, 300)
    before = content(node)
    with pytest.raises(DamagedLogError, match=r"only voter.*quorum recover --cut"):
        node.start()
    assert content(node) == before  # nothing of it was dropped


def test_what_is_missing_can_be_given_up() -> None:
    node = lone_voter()
    node.machine.disk.rot(LOG, len(content(node)) // 2)
    disk = node.machine.disk.open_for_process()
    with pytest.raises(DamagedLogError):
        assess(disk, node.settings, "/data")
    found = assess(disk, node.settings, "/data", cut_damage=True)
    assert "is damaged, and lost" in " ".join(found.sentences())
    recover(disk, node.settings, "/data", START_WALL_MS, "test")
    node.start()
    node.quorum.commit(b"after")
    values = node.journal.values
    assert 0 < len(values) - 1 < 20
    assert values == [b"%d" % number for number in range(len(values) - 1)] + [b"after"]
    assert found.end.offset < 20


@pytest.mark.parametrize("size", [0, 200], ids=["empty", "shorter"])
def test_a_log_that_became_shorter_is_missed_as_well(size: int) -> None:
    node = lone_voter()
    disk = node.machine.disk.open_for_process()
    file = disk.open(LOG)
    file.truncate(size)
    file.sync()
    file.close()
    with pytest.raises(DamagedLogError):
        node.start()


def test_a_torn_end_is_cut_as_ever_and_said() -> None:
    node = lone_voter()
    disk = node.machine.disk.open_for_process()
    file = disk.open(LOG)
    file.append([content(node)[-40:]])
    file.close()
    node.start()
    assert node.process is not None
    assert any("raft.log_cut" in line for line in node.process.log_lines)
    node.quorum.commit(b"after")
    assert node.journal.values == [*(b"%d" % number for number in range(20)), b"after"]


def test_a_clean_shutdown_vouches_for_the_whole_log() -> None:
    node = lone_voter(values=3, every_ms=0.0)
    assert marked_offset(node.machine.disk.open_for_process(), "/data/__cluster_metadata-0") < 4
    node.start()
    node.quorum.elect()
    assert node.replica is not None
    done: list[bool] = []
    node.replica.shutdown(lambda: done.append(True))
    node.quorum.run_until(lambda: bool(done))
    node.kill()
    node.machine.disk.rot(LOG, len(content(node)) - 5)
    with pytest.raises(DamagedLogError):
        node.start()


@pytest.mark.parametrize("mark", [b"", b"0\n1\n__cluster_meta", b"\xff\xfe"])
def test_a_torn_mark_says_nothing(mark: bytes) -> None:
    node = lone_voter()
    disk = node.machine.disk.open_for_process()
    disk.write_atomic(MARK, mark)
    node.machine.disk.rot(LOG, 300)
    node.start()


def test_one_of_three_fetches_again_what_was_damaged() -> None:
    quorum = Quorum()
    quorum.start()
    for number in range(20):
        quorum.commit(b"%d" % number)
        quorum.world.run(quorum.world.now_ms + 200)
    follower = next(node for node in quorum.nodes.values() if node is not quorum.elect())
    follower.kill()
    follower.machine.disk.rot(LOG, 300)
    follower.start()
    quorum.commit(b"after")
    quorum.settle()
    assert follower.journal.values == [*(b"%d" % number for number in range(20)), b"after"]


def test_who_was_alone_once_opens_by_the_voters_of_its_log() -> None:
    quorum = Quorum(voters=2, first_voters=1)
    quorum.start()
    quorum.commit(b"alone")
    quorum.world.run(quorum.world.now_ms + 2_000)
    assert quorum.add_voter(2).error == 0
    for number in range(5):
        quorum.commit(b"%d" % number)
        quorum.world.run(quorum.world.now_ms + 1_100)
    node = quorum.nodes[1]
    node.kill()
    node.machine.disk.rot(LOG, len(content(node)) - 5)
    opened = open_replica(node.machine.disk.open_for_process(), node.settings, "/data")
    assert opened.fault
    assert list(opened.history.voters) == [1, 2]
