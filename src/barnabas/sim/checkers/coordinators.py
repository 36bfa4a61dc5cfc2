"""The group coordinators that serve on a node, for the checkers of invariant 11."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.coordinator.coordinator_shard import CoordinatorShard
from barnabas.group.machine import GroupMachine
from barnabas.sim.cluster import SimNode


def serving(node: SimNode) -> Iterator[CoordinatorShard[GroupMachine]]:
    """Those that have loaded their partition and take operations."""
    broker = node.broker
    if broker is not None:
        for shard in broker.groups.shards.values():
            if shard.active:
                yield shard
