"""Deaths in the middle: between two calls of one turn on the disk, or of one background job.

Other faults strike between events, when a node has completed its turn. A process can die anywhere: when one
file has its new name and the next one not yet, when a log was truncated and no checkpoint says so, within
recovery. What was in memory is gone, and no peer has heard of it.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.world.world import Killed

WAIT_MS_MAX = 6_000.0
"""The longest wait for its moment."""
ANY = (("",), (1, 5, 30, 150))
MOMENTS = (
    ANY,
    ANY,
    ((".swap", ".cleaned"), (1, 2, 4, 8)),
    ((".deleted", "-delete", "-future"), (1, 2, 4, 8)),
    (("-checkpoint", "partition.metadata", ".kafka_cleanshutdown"), (1, 2, 4, 8)),
    (("quorum-state", ".checkpoint"), (1, 2, 4)),
    ((".index", ".timeindex", ".snapshot"), (1, 2, 4, 8)),
    (("/__cluster_metadata-0",), (1, 2, 8)),
    (("/__consumer_offsets",), (1, 2, 8)),
)
"""Part of the path of what is about to change, and the how manieth such call it is."""


def kill_within(s: Strike) -> bool:
    """kill -9 between two calls on the disk."""
    node = s.any_node()
    return node is not None and _lie_in_wait(s, node, lambda: False)


def power_within(s: Strike) -> bool:
    """The power goes between two calls on the disk, within the budget."""
    node = s.any_node()
    if node is None or not (s.budget.all_synced or s.budget.may_lose_data(node)):
        return False

    def loses_power() -> bool:
        if s.budget.all_synced:
            return True
        if not s.budget.may_lose_data(node):
            return False  # others have lost something meanwhile
        s.budget.on_lost(node)
        return True

    return _lie_in_wait(s, node, loses_power)


def _lie_in_wait(s: Strike, node: SimNode, loses_power: Callable[[], bool]) -> bool:
    """Kill `node` when its moment has come, and have it back soon. In some cases it is killed before: then
    its moment may be in what it does at its next start."""
    hooks = node.machine.disk.hooks
    if hooks.on_change is not None:
        return False
    parts, counts = s.rng.choice(MOMENTS)
    left = s.rng.choice(counts)
    s.note(f"node {node.id} is to die at change {left} of {parts}")

    def about_to_change(path: str) -> None:
        nonlocal left
        if node.process is None or not any(part in path for part in parts):
            return
        left -= 1
        if left > 0:
            return
        hooks.stop_waiting(about_to_change)
        s.count("deaths within a turn")
        s.note(f"node {node.id} is about to change {path}")
        node.kill(power_loss=loses_power())
        s.world.after(s.wait_ms(5, 20, 200, 1500), node.start)
        raise Killed

    hooks.lie_in_wait(about_to_change)
    s.repair_later(WAIT_MS_MAX, lambda: hooks.stop_waiting(about_to_change))
    if s.rng.random() < 0.3:
        node.kill()
        s.world.after(s.wait_ms(5, 20, 200), node.start)
    return True
