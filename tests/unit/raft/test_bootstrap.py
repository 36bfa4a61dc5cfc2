"""What a replica finds when it is opened counts for votes and commits: it has to be durable by then."""

from __future__ import annotations

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
