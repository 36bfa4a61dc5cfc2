"""What a replica finds when it is opened counts for votes and commits: it has to be durable by then."""

from __future__ import annotations

import pytest

from barnabas.raft.storage.snapshot_files import CorruptSnapshotError
from tests.unit.raft.quorum_world import Quorum


def test_bytes_a_killed_process_left_in_the_cache_are_durable_once_opened() -> None:
    """Simulator seed 10129: killed before the sync, opened, and the power failed."""
    left = 0
    for seed in range(1, 21):
        quorum = Quorum(seed, voters=1)
        node = quorum.nodes[1]
        quorum.start()
        quorum.commit(b"durable")
        assert node.replica is not None
        node.replica.append([b"in the cache"])
        quorum.world.run(quorum.world.now_ms)  # written; the sync continues
        node.kill()
        node.start()
        found = node.replica.machine.log
        assert found.synced_offset == found.end_offset
        end = found.end_offset
        left += any(value == b"in the cache" for value in node.journal.values)
        node.kill(power_loss=True)
        node.start()
        assert node.replica.machine.log.end_offset == end
        quorum.commit(b"after")
        left += b"in the cache" in node.journal.values
    assert left


def with_snapshots(**settings: int) -> tuple[Quorum, list[str]]:
    """A voter that ended after some snapshots, and their paths."""
    quorum = Quorum(voters=1, bytes_between_snapshots=1_500, segment_bytes=1_024, **settings)
    quorum.start()
    for number in range(60):
        quorum.commit(b"%90d" % number)
    quorum.world.run(quorum.world.now_ms + 100)
    node = quorum.nodes[1]
    node.kill()
    names = sorted(name for name in node.machine.disk.names if name.endswith(".checkpoint"))
    return quorum, names


@pytest.mark.parametrize("count", [1, 2])
def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log(count: int) -> None:
    """The node ended with the name of the file at every start."""
    quorum, names = with_snapshots(retention_bytes=1_000_000)
    assert len(names) > count
    node = quorum.nodes[1]
    for path in names[-count:]:
        node.machine.disk.rot(path, len(node.machine.disk.content(path)) // 2)
    node.start()
    quorum.commit(b"after")
    assert [int(value) for value in node.journal.values[:-1]] == list(range(60))
    assert node.process is not None
    told = [line for line in node.process.log_lines if "raft.snapshot_damaged" in line]
    assert len(told) == 1 and names[-1] in told[0]
    node.kill()
    node.start()
    assert node.process is not None
    assert not [line for line in node.process.log_lines if "raft.snapshot_damaged" in line]


def test_a_damaged_snapshot_that_nothing_replaces_is_refused_with_a_remedy() -> None:
    quorum, names = with_snapshots(retention_bytes=1_000)
    node = quorum.nodes[1]
    for path in names:
        node.machine.disk.rot(path, len(node.machine.disk.content(path)) // 2)
    with pytest.raises(CorruptSnapshotError, match=r"Restore the file") as refused:
        node.start()
    assert names[-1] in str(refused.value)
