"""Invariant 5: a partition's leader epoch has one leader, whichever image one looks at."""

from __future__ import annotations

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import Uuid


class OneLeaderPerPartitionEpoch(Checker):
    def __init__(self) -> None:
        self.leaders: dict[tuple[Uuid, int, int], int] = {}
        self._seen: dict[int, tuple[object, int]] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        image = node.node.metadata.image
        if self._seen.get(node.id) == (image, image.offset):
            return
        self._seen[node.id] = (image, image.offset)
        for topic_id, topic in image.topics_by_id.items():
            for index in range(len(topic)):
                state = topic.partition(index)
                if state.leader < 0:
                    continue
                key = (topic_id, index, state.leader_epoch)
                known = self.leaders.setdefault(key, state.leader)
                if known != state.leader:
                    raise Violation(
                        f"{topic.name}-{index}, leader epoch {state.leader_epoch}:"
                        f" leaders {known} and {state.leader} (node {node.id})"
                    )
