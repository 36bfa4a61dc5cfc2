"""The N-th disk call fails, N = 1, 2, 3, ... until all succeed: nothing acknowledged is ever lost.

One voter, so that no other replica can make up for it: it opens, elects itself, commits, takes snapshots,
deletes
old log and shuts down. A replica whose disk fails ends its node; after a restart it has what it said it had.
"""

from __future__ import annotations

from errno import ENOSPC
from typing import Any

import pytest

from tests.unit.raft.quorum_world import Quorum, QuorumNode

TIGHT = {"bytes_between_snapshots": 400, "retention_bytes": 500, "segment_bytes": 512}


def commit(node: QuorumNode, value: bytes, acknowledged: list[bytes]) -> None:
    """Propose `value` and wait for it, or for the end of the node."""
    world, replica = node.quorum.world, node.replica
    assert replica is not None
    offset = replica.append([value])
    world.run(world.now_ms + 1_000, lambda: replica.applied_offset > offset or not node.is_up)
    if replica.applied_offset > offset and node.is_up:
        acknowledged.append(value)


def live(quorum: Quorum, acknowledged: list[bytes]) -> bool:
    """Open, commit a dozen values and shut down; whether it came to the end."""
    node = quorum.nodes[1]
    try:
        node.start()
    except OSError:
        node.kill()
        return False
    world = quorum.world
    if not world.run(world.now_ms + 2_000, lambda: quorum.active() is not None or not node.is_up):
        return False
    for number in range(12):
        if not node.is_up or node.replica is None or not node.replica.is_active:
            return False
        commit(node, b"%d of %d" % (number, node.machine.starts), acknowledged)
    done: list[bool] = []
    if node.is_up and node.replica is not None:
        node.replica.shutdown(lambda: done.append(True))
        world.run(world.now_ms + 3_000, lambda: bool(done) or not node.is_up)
    node.kill()
    return bool(done)


@pytest.mark.slow
@pytest.mark.parametrize("once", [True, False], ids=["once", "for good"])
def test_no_acknowledged_record_is_lost_whatever_call_fails(once: bool) -> None:
    finished = failures = 0
    for number in range(1, 2_000, 1 if once else 3):
        quorum = Quorum(number, voters=1, **TIGHT)
        acknowledged: list[bytes] = []
        disk = quorum.nodes[1].machine.disk
        disk.fail_call(number, for_good=not once)
        whole = live(quorum, acknowledged)
        quorum.nodes[1].kill()
        failures += not whole
        finished += not disk.fault_was_hit
        disk.fail_call(0)
        quorum.start()
        quorum.commit(b"after")
        values = quorum.nodes[1].journal.values
        assert values[-1] == b"after"
        missing = [value for value in acknowledged if value not in values]
        assert not missing, f"call {number}: {missing}"
        if finished:
            break
    assert failures > 10


def test_a_failure_while_a_sync_is_prepared_ends_the_node() -> None:
    """An index that is written then; a leader comes by there behind its answers, outside of any step."""
    quorum = Quorum(11)
    quorum.start()
    leader = quorum.elect()
    assert leader.replica is not None

    def sync_job() -> Any:
        raise OSError(ENOSPC, "No space left on device", "an index")

    leader.replica.log.sync_job = sync_job  # type: ignore[method-assign]
    leader.replica.append([b"1"])
    quorum.world.run(quorum.world.now_ms + 100)
    assert not leader.is_up
    assert quorum.halts
