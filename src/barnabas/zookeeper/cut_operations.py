"""Cuts many operations into transactions that a ZooKeeper ensemble accepts."""

from __future__ import annotations

from collections import deque

from barnabas.limits import ZookeeperBounds
from barnabas.zookeeper.operations import Operation


def take_operations(
    operations: deque[Operation], bounds: ZookeeperBounds, *, besides: int
) -> list[Operation]:
    """Remove and return the first operations, as many as fit into one transaction, and at least one if there
    is one. The transaction has `besides` other operations; the size of an operation is that of path and data.
    """
    taken: list[Operation] = []
    size = 0
    while operations:
        one = operations[0]
        size += len(one.path) + len(getattr(one, "data", b""))
        is_full = besides + len(taken) >= bounds.operations_max or size > bounds.operation_bytes_max
        if taken and is_full:
            break
        taken.append(operations.popleft())
    return taken
