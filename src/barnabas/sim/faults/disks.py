"""Disks that fail: once, for good, for lack of room; and what becomes of them.

A node whose only directory fails ends itself and is started again by whoever supervises it; one that has
others goes on without it. A directory that fails for good is repaired with what is on it, or replaced
by an empty one, within the budget.
"""

from __future__ import annotations

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.strike import Strike


def disk_error(s: Strike) -> bool:
    """One call fails with EIO, soon."""
    node = s.any_node()
    if node is None:
        return False
    prefix = s.rng.choice(_directories(s, node))
    nth = s.rng.choice([1, 5, 20, 80])
    s.note(f"node {node.id}: the {nth}. call below {prefix} fails")
    node.machine.disk.fail_call(nth, prefix=prefix)
    s.repair_later(s.rng.uniform(500, 3000), lambda: _repair(s, node))
    return True


def disk_failure(s: Strike) -> bool:
    """Everything below one directory fails, until it is repaired or replaced."""
    node = s.any_node()
    if node is None:
        return False
    prefix = s.rng.choice(_directories(s, node))
    s.note(f"node {node.id}: everything below {prefix} fails")
    node.machine.disk.fail_call(1, prefix=prefix, for_good=True)
    replaced = prefix != "/data" and s.rng.random() < 0.5 and s.budget.may_lose_data(node)
    if replaced:
        s.budget.on_lost(node)

    def repair() -> None:
        _repair(s, node, prefix if replaced else "")

    s.repair_later(s.wait_ms(500, 3000), repair)
    return True


def disk_full(s: Strike) -> bool:
    """A device takes only a little more, for a while."""
    node = s.any_node()
    if node is None:
        return False
    disk = node.machine.disk
    disk.capacity_bytes = disk.used_bytes() + s.rng.choice([0, 1_000, 20_000])
    s.note(f"node {node.id}: the disk is full at {disk.capacity_bytes} bytes")
    s.repair_later(s.wait_ms(500, 3000), lambda: _repair(s, node))
    return True


def _directories(s: Strike, node: SimNode) -> list[str]:
    count = s.cluster.topology.directories if node.id in s.cluster.topology.broker_ids else 1
    return ["/data", *(f"/data{n}" for n in range(2, count + 1))]


def _repair(s: Strike, node: SimNode, replaced: str = "") -> None:
    """The device is sound again. A process that took a directory offline learns it when it is started
    again, as Kafka's does."""
    disk = node.machine.disk
    failed, disk.is_troubled = disk.is_troubled, False
    disk.fail_call(0)
    disk.capacity_bytes = 1 << 40
    if not failed and not replaced:
        return
    s.note(
        f"node {node.id}: its disk is sound again" + f", {replaced} an empty one" * bool(replaced)
    )
    s.count("disks repaired")
    if node.is_up:
        node.kill()
    if replaced:
        disk.wipe(replaced)
    node.start()
