"""A metadata log that stops to be sound: what a crash tore is cut, what was on disk is not lost silently."""

from __future__ import annotations

import pytest

from barnabas.raft.core.batches import control_batch, data_batch
from barnabas.raft.core.election_state import FILE_NAME
from barnabas.raft.quorum_recovery import RecoveryRefusedError, assess, recover
from barnabas.raft.storage.bootstrap import open_replica
from barnabas.raft.storage.recovery_point import DamagedLogError, marked_offset, sound_controls
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.record.batch import HEADER, HEADER_SIZE, LENGTH_PREFIX
from barnabas.record.builder import ControlType
from barnabas.sim.world.world import START_WALL_MS
from barnabas.wire.messages.voters_record import VotersRecord
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


def batches(node: QuorumNode) -> dict[int, int]:
    """The position of each batch, by base offset."""
    data, at, found = content(node), 0, {}
    while at + HEADER_SIZE <= len(data):
        base, length = HEADER.unpack_from(data, at)[:2]
        found[base] = at
        at += LENGTH_PREFIX + length
    return found


def test_the_only_voter_does_not_start_without_what_was_on_its_disk() -> None:
    node = lone_voter()
    node.machine.disk.rot(LOG, 300)
    before = content(node)
    with pytest.raises(DamagedLogError, match=r"only voter.*quorum recover --cut"):
        node.start()
    assert content(node) == before  # nothing of it was dropped


def test_missing_entries_can_be_given_up() -> None:
    node = lone_voter()
    node.machine.disk.rot(LOG, len(content(node)) // 2)
    disk = node.machine.disk.open_for_process()
    found = assess(disk, node.settings, "/data")
    assert found.is_damaged and "are damaged and lost" in " ".join(found.sentences())
    with pytest.raises(RecoveryRefusedError, match="give up what is missing with --cut"):
        recover(disk, node.settings, "/data", START_WALL_MS, "test")
    recover(disk, node.settings, "/data", START_WALL_MS, "test", cut_damage=True)
    node.start()
    node.quorum.commit(b"after")
    values = node.journal.values
    assert 0 < len(values) - 1 < 20
    assert values == [b"%d" % number for number in range(len(values) - 1)] + [b"after"]
    assert found.end.offset < 20


@pytest.mark.parametrize("voters", [2, 3])
@pytest.mark.parametrize("dynamic", [True, False])
def test_damage_is_reported_before_anything_is_truncated(voters: int, *, dynamic: bool) -> None:
    """Others would give it back; who recovers has given them up. It was cut at the look, and with two static
    voters nothing was said to be missing."""
    quorum = Quorum(voters=voters, first_voters=voters if dynamic else None)
    quorum.start()
    for number in range(20):
        quorum.commit(b"%d" % number)
    quorum.settle()
    node = next(n for n in quorum.nodes.values() if n is not quorum.elect())
    for other in quorum.nodes.values():
        other.kill()
    node.machine.disk.rot(LOG, batches(node)[10] + HEADER_SIZE + 3)
    below = sorted(node.machine.disk.below("/data"))
    before = {path: content(node, path) for path in below}
    disk = node.machine.disk.open_for_process()
    found = assess(disk, node.settings, "/data")
    assert found.end.offset == 10
    said = " ".join(found.sentences())
    assert "what was committed there is lost" in said
    assert "nothing that was committed is missing" not in said
    with pytest.raises(RecoveryRefusedError, match="--cut"):
        recover(disk, node.settings, "/data", START_WALL_MS, "test")
    assert sorted(node.machine.disk.below("/data")) == below
    assert {path: content(node, path) for path in below} == before


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


def test_a_replica_that_was_alone_opens_by_the_voters_of_its_log() -> None:
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


BITS_WITHOUT_CRC = [(7, 0), (7, 1), (6, 0), (4, 4), (12 + 3, 0), (12 + 3, 3), (12, 6)]
"""(byte of the header, bit): in the base offset, in the epoch."""


@pytest.mark.parametrize("offset", [0, 10, 20])
@pytest.mark.parametrize("byte, bit", BITS_WITHOUT_CRC)
def test_a_bit_that_no_crc_covers_rots_and_nothing_committed_is_lost(
    offset: int, byte: int, bit: int
) -> None:
    """Of a follower that lacks the last values, too: it must not be elected for them."""
    quorum = Quorum(3)
    quorum.start()
    for number in range(20):
        quorum.commit(b"%d" % number)
    quorum.settle()
    leader = quorum.elect()
    victim = next(node for node in quorum.up() if node is not leader)
    victim.kill()
    victim.machine.disk.rot(LOG, batches(victim)[offset] + byte, bit)
    for number in range(20, 25):
        quorum.commit(b"%d" % number)
    leader.kill()
    victim.start()
    quorum.commit(b"after")
    quorum.settle()
    for node in quorum.up():
        assert node.journal.values == [*(b"%d" % number for number in range(25)), b"after"]
    assert not quorum.halts


@pytest.mark.parametrize("byte, bit", BITS_WITHOUT_CRC)
def test_a_rotten_batch_before_a_snapshot_in_one_segment_is_fetched_again(
    byte: int, bit: int
) -> None:
    """Nothing behind it can be found by its offset (seed 800154)."""
    quorum = Quorum(3, bytes_between_snapshots=600)
    quorum.start()
    for number in range(25):
        quorum.commit(b"%d" % number)
        quorum.world.run(quorum.world.now_ms + 100)
    victim = next(node for node in quorum.up() if node is not quorum.elect())
    victim.kill()
    names = list(victim.machine.disk.below("/data/__cluster_metadata-0"))
    assert max(name for name in names if name.endswith(".checkpoint")).rsplit("/")[-1] > f"{12:020}"
    victim.machine.disk.rot(LOG, batches(victim)[10] + byte, bit)
    victim.start()
    quorum.commit(b"after")
    quorum.settle()
    assert victim.journal.values == [*(b"%d" % number for number in range(25)), b"after"]


@pytest.mark.parametrize("byte, bit", [(7, 1), (12 + 3, 0), (12 + 3, 3)])
def test_the_only_voter_does_not_start_where_no_crc_covers_what_rotted(byte: int, bit: int) -> None:
    node = lone_voter()
    node.machine.disk.rot(LOG, batches(node)[10] + byte, bit)
    with pytest.raises(DamagedLogError):
        node.start()


def test_the_first_record_of_an_epoch_that_rotted_is_of_none_that_was_heard_of() -> None:
    """At the end of the log nothing contradicts it but what was persisted."""
    node = lone_voter(values=1)
    node.start()
    node.quorum.elect()  # its record is the last one
    node.kill()
    at = batches(node)
    node.machine.disk.rot(LOG, at[max(at)] + 12 + 3, 3)
    disk = node.machine.disk.open_for_process()
    opened = open_replica(disk, node.settings, "/data", cut_damage=True)
    assert opened.log_metadata.end_offset == max(at)
    assert "was not reached yet" in opened.fault


def test_a_log_that_cannot_be_cut_where_it_should_be_ends_the_node() -> None:
    """A header rotted below the cut: the log ends there, not where the machine decided."""
    quorum = Quorum(5)
    quorum.start()
    old = quorum.elect()
    for number in range(30):
        quorum.commit(b"%d" % number)
    quorum.settle()
    for node in quorum.nodes:
        if node != old.id:
            quorum.network.cut(f"n{node}", f"n{old.id}")
            quorum.network.cut(f"n{old.id}", f"n{node}")
    assert old.replica is not None
    old.replica.append([b"never committed"])
    quorum.world.run(quorum.world.now_ms + 8_000)
    quorum.commit(b"by another")
    old.replica.log.partition_log.active._forget_recent(0)  # type: ignore[attr-defined]
    old.machine.disk.rot(LOG, batches(old)[20] + 16, 2)
    quorum.network.heal()
    quorum.world.run(quorum.world.now_ms + 5_000)
    assert not old.is_up
    assert "is damaged" in quorum.halts[0]
    old.start()
    quorum.settle()
    assert old.journal.values == [*(b"%d" % number for number in range(30)), b"by another"]


@pytest.mark.parametrize("left", ["nothing", "an older one"])
def test_a_log_is_opened_whatever_became_of_the_election_file(left: str) -> None:
    """Apache Kafka starts with the epoch of its log where the file is gone or older: it was wiped, or
    put a copy in its place."""
    quorum = Quorum()
    quorum.start()
    old = {}
    for number in range(3):
        leader = quorum.elect()
        assert leader.replica is not None
        quorum.commit(b"%d" % number)
        quorum.settle()
        epoch = leader.replica.epoch
        if not number:
            path = f"/data/{DIRECTORY}/{FILE_NAME}"
            old = {node.id: bytes(node.machine.disk.content(path)) for node in quorum.up()}
        leader.replica.resign("test")
        quorum.run_until(lambda e=epoch: quorum.elect().replica.epoch > e)  # type: ignore[misc,union-attr]
    quorum.commit(b"3")
    quorum.settle()
    for node in quorum.nodes.values():
        node.kill()
        disk = node.machine.disk.open_for_process()
        disk.remove(path)
        if left != "nothing":
            disk.write_atomic(path, old[node.id])
        node.start()
    quorum.commit(b"4")
    quorum.settle()
    for node in quorum.up():
        assert node.journal.values == [b"%d" % number for number in range(5)]


def test_voters_behind_a_large_batch_are_seen() -> None:
    disk = Quorum(1).nodes[1].machine.disk.open_for_process()
    disk.make_dirs("/d")
    voters = VotersRecord(version=0, voters=[])
    file = disk.open(f"/d/{0:020d}.log", create=True)
    large = data_batch([bytes(5 << 20)] * 2, 0, 1, 0)
    file.append([large, control_batch([(ControlType.KRAFT_VOTERS, voters)], 2, 1, 0)])
    assert [base for base, _ in sound_controls(disk, "/d")] == [2]


@pytest.mark.parametrize("harm", ["flipped", "shorter"])
def test_a_founder_whose_log_ends_before_others_came_does_not_lead_alone(harm: str) -> None:
    """It was elected by itself, beside the quorum, and observers and at last the other voters followed it."""
    quorum = Quorum(voters=3, first_voters=1)
    quorum.start()
    quorum.commit(b"alone")
    assert quorum.add_voter(2).error == 0
    assert quorum.add_voter(3).error == 0
    for number in range(5):
        quorum.commit(b"%d" % number)
    quorum.world.run(quorum.world.now_ms + 100)
    founder = quorum.nodes[1]
    founder.kill()
    synced = marked_offset(founder.machine.disk.open_for_process(), "/data/__cluster_metadata-0")
    at = batches(founder)
    second = next(offset for offset in at if offset > 0)
    if harm == "flipped":
        founder.machine.disk.rot(LOG, at[second] + HEADER_SIZE + 3)
    else:
        file = founder.machine.disk.open_for_process().open(LOG)
        file.truncate(at[second])
        file.close()
    assert synced > second
    with pytest.raises(DamagedLogError, match=r"what is left.*only voter.*other voters"):
        founder.start()
    quorum.commit(b"continues")
    assert not quorum.halts
