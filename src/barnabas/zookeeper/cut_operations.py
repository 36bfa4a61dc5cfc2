"""Cuts many operations into transactions that a ZooKeeper ensemble accepts."""

from __future__ import annotations

from collections import deque

from barnabas.limits import ZookeeperBounds
from barnabas.zookeeper.operations import Operation


def take_operations(
    operations: deque[Operation], bounds: ZookeeperBounds, *, besides: int
) -> list[Operation]:
    """Remove and return the first operations, as many as fit into one transaction: at least one, if there is
    one. The transaction has `besides` other operations."""
    taken: list[Operation] = []
    size = 0
    while operations and (
        not taken
        or (besides + len(taken) < bounds.operations_max and size < bounds.operation_bytes_max)
    ):
        one = operations.popleft()
        size += len(getattr(one, "data", b""))
        taken.append(one)
    return taken
