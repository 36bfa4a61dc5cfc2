"""When snapshots are taken, and how long they and the log before them stay (metadata.max.retention.*)."""

from __future__ import annotations

import pytest

from barnabas.raft.core.log_metadata import FetchFit
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.raft.storage.snapshot_files import file_name, snapshots_in
from tests.unit.raft.quorum_world import Quorum, QuorumNode

PATH = f"/data/{DIRECTORY}"
NEVER = -1
MUCH = 1 << 40


def kept(node: QuorumNode) -> list[OffsetAndEpoch]:
    assert node.process is not None
    return snapshots_in(node.process.disk, PATH)


def size(node: QuorumNode) -> int:
    """Of log and snapshots, in bytes."""
    assert node.process is not None and node.replica is not None
    disk = node.process.disk
    names = [file_name(snapshot) for snapshot in kept(node)]
    names += [name for name in disk.list_dir(PATH) if name.endswith(".log")]
    return sum(disk.size(f"{PATH}/{name}") for name in names)


def log_start(node: QuorumNode) -> int:
    assert node.replica is not None
    return node.replica.log_start_offset


def alone(**settings: int) -> tuple[Quorum, QuorumNode]:
    quorum = Quorum(voters=1, **settings)
    quorum.start()
    return quorum, quorum.elect()


def write(quorum: Quorum, count: int) -> None:
    for number in range(count):
        quorum.commit(b"%90d" % number)


def test_a_snapshot_is_taken_after_so_many_bytes() -> None:
    quorum, node = alone(bytes_between_snapshots=2_000, snapshot_interval_ms_max=0)
    write(quorum, 5)
    assert kept(node) == []
    write(quorum, 30)
    quorum.run_until(lambda: bool(kept(node)))
    assert log_start(node) == 0, "one snapshot alone lets no log go"


def test_the_first_voters_of_a_dynamic_quorum_are_no_old_snapshot() -> None:
    quorum = Quorum(voters=1, first_voters=1, bytes_between_snapshots=2_000)
    quorum.start()
    node = quorum.elect()
    write(quorum, 30)
    quorum.run_until(lambda: len(kept(node)) > 1)
    quorum.world.run(quorum.world.now_ms + 120_000)
    assert log_start(node) == 0


def test_a_snapshot_is_taken_after_so_long_where_something_changed() -> None:
    quorum, node = alone(bytes_between_snapshots=MUCH, snapshot_interval_ms_max=5_000)
    quorum.world.run(quorum.world.now_ms + 6_000)
    write(quorum, 1)
    quorum.run_until(lambda: len(kept(node)) == 1)
    quorum.world.run(quorum.world.now_ms + 20_000)
    assert len(kept(node)) == 1, "nothing changed since"


def test_snapshots_beyond_the_size_are_deleted() -> None:
    limit = 12_000
    quorum, node = alone(
        bytes_between_snapshots=1_500,
        segment_bytes=1_024,
        retention_bytes=limit,
        retention_ms=NEVER,
    )
    for _ in range(10):
        write(quorum, 20)
        quorum.world.run(quorum.world.now_ms + 100)
        last = kept(node)[-1:]
        assert size(node) <= limit + 3_000 or kept(node) == last
    assert log_start(node) > 0
    assert kept(node)[0].offset >= log_start(node)
    node.kill()
    node.start()
    quorum.commit(b"more")
    assert node.journal.values[-1] == b"more" and len(node.journal.values) == 201


def test_a_snapshot_past_its_age_is_deleted_once_a_newer_one_exists() -> None:
    quorum, node = alone(
        bytes_between_snapshots=1_500,
        segment_bytes=1_024,
        retention_bytes=NEVER,
        retention_ms=10_000,
    )
    write(quorum, 40)
    quorum.world.run(quorum.world.now_ms + 100)
    before = kept(node)
    assert len(before) > 1 and log_start(node) == 0
    quorum.world.run(quorum.world.now_ms + 11_000)
    write(quorum, 20)
    quorum.world.run(quorum.world.now_ms + 100)
    left = kept(node)
    assert left and not set(before) & set(left)
    assert 0 < log_start(node) <= left[0].offset


def test_old_snapshots_are_deleted_though_nothing_happens() -> None:
    quorum, node = alone(
        bytes_between_snapshots=1_500,
        segment_bytes=1_024,
        retention_bytes=NEVER,
        retention_ms=10_000,
        snapshot_interval_ms_max=0,
    )
    write(quorum, 40)
    quorum.world.run(quorum.world.now_ms + 100)
    before = kept(node)
    assert len(before) > 1 and log_start(node) == 0
    quorum.world.run(quorum.world.now_ms + 80_000)
    assert kept(node) == before[-1:]
    assert 0 < log_start(node) <= before[-1].offset


def test_a_snapshot_is_taken_after_so_long_though_nothing_happens() -> None:
    quorum, node = alone(bytes_between_snapshots=MUCH, snapshot_interval_ms_max=5_000)
    write(quorum, 1)
    assert kept(node) == []
    quorum.world.run(quorum.world.now_ms + 11_000)
    assert len(kept(node)) == 1


def test_everything_is_kept_where_nothing_bounds_it() -> None:
    quorum, node = alone(
        bytes_between_snapshots=1_500,
        segment_bytes=1_024,
        retention_bytes=NEVER,
        retention_ms=NEVER,
    )
    write(quorum, 60)
    quorum.world.run(quorum.world.now_ms + 50_000)
    assert len(kept(node)) > 2 and log_start(node) == 0


@pytest.mark.slow
def test_snapshots_below_a_fetched_one_are_deleted() -> None:
    quorum = Quorum(bytes_between_snapshots=1_500, segment_bytes=1_024, retention_bytes=3_000)
    quorum.start()
    late = next(node for node in quorum.nodes.values() if node is not quorum.elect())
    for _ in range(3):
        write(quorum, 20)
        quorum.settle()
        late.kill()
        write(quorum, 60)
        quorum.world.run(quorum.world.now_ms + 100)
        late.start()
        quorum.settle()
        assert late.installed == 1
        quorum.world.run(quorum.world.now_ms + 100)
        assert len(kept(late)) <= 2 and log_start(late) >= kept(late)[0].offset


def test_a_snapshot_that_is_not_installed_yet_deletes_no_other() -> None:
    quorum, node = alone(bytes_between_snapshots=1_500, segment_bytes=1_024, retention_bytes=MUCH)
    write(quorum, 60)
    quorum.world.run(quorum.world.now_ms + 100)
    assert node.replica is not None and node.process is not None
    snapshotting, shape = node.replica._snapshotting, node.replica.machine.log
    own, disk = kept(node)[-1], node.process.disk
    fetched = OffsetAndEpoch(shape.end_offset + 500, own.epoch + 1)
    disk.write_atomic(f"{PATH}/{file_name(fetched)}", disk.read_file(f"{PATH}/{file_name(own)}"))
    last = shape.last
    snapshotting._may_go = lambda snapshot, total: True  # type: ignore[method-assign]
    snapshotting.clean()
    assert kept(node) == [own, fetched]
    assert shape.last == last and shape.start_offset == own.offset
    assert node.replica.log.end_offset == last.offset


def test_a_snapshot_below_the_logs_start_is_no_earliest_one() -> None:
    """It is this replica's own, and the one fetched since replaced the log: a reader at the log's start
    was sent the same snapshot again and again."""
    quorum, node = alone(
        bytes_between_snapshots=4_000, snapshot_interval_ms_max=0, retention_bytes=MUCH
    )
    while len(kept(node)) < 3:
        write(quorum, 1)
        quorum.world.run(quorum.world.now_ms + 50)
    assert node.replica is not None
    shape, snapshotting = node.replica.machine.log, node.replica._snapshotting
    latest, first = shape.latest_snapshot, kept(node)[0]
    assert latest is not None
    node.replica.log.delete_before(latest.offset)
    shape.advance_start(node.replica.log.start_offset, latest)
    snapshotting._may_go = lambda snapshot, total: snapshot == first  # type: ignore[method-assign]
    snapshotting.clean()
    assert shape.earliest_snapshot is not None
    assert shape.earliest_snapshot.offset >= shape.start_offset
    assert shape.check(latest.offset, latest.epoch).fit is FetchFit.VALID


def test_a_snapshot_that_does_not_fit_gives_its_room_back() -> None:
    quorum, node = alone(bytes_between_snapshots=12_000, snapshot_interval_ms_max=0)
    write(quorum, 60)
    disk = node.machine.disk
    disk.capacity_bytes = disk.used_bytes() + 7_000
    for _ in range(30):
        write(quorum, 1)
        quorum.world.run(quorum.world.now_ms + 20)
    assert node.process is not None
    assert any("snapshot_failed" in line for line in node.process.log_lines)
    assert not [name for name in disk.names if name.endswith(".part")]


def test_a_leader_whose_newest_snapshot_rots_takes_another_when_it_serves_it() -> None:
    quorum = Quorum(bytes_between_snapshots=1_500, segment_bytes=1_024, retention_bytes=3_000)
    quorum.start()
    leader = quorum.elect()
    late = next(node for node in quorum.nodes.values() if node is not leader)
    late.kill()
    write(quorum, 60)
    quorum.world.run(quorum.world.now_ms + 100)
    assert leader.replica is not None
    quorum.run_until(lambda: log_start(leader) > 0)
    leader.machine.disk.rot(f"{PATH}/{file_name(kept(leader)[-1])}", 200)
    late.start()
    quorum.run_until(lambda: late.installed == 1)
    assert leader.process is not None
    assert any("raft.snapshot_corrupt" in line for line in leader.process.log_lines)
    leader.kill()
    leader.start()  # which it could not with that one
