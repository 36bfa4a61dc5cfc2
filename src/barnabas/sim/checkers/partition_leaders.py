"""Invariant 5: a partition's leader epoch has one leader, whichever image one looks at."""

from __future__ import annotations

from array import array

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import Uuid


class OneLeaderPerPartitionEpoch(Checker):
    LOOKS_AT_IMAGE = True

    def __init__(self) -> None:
        self.leaders: dict[tuple[Uuid, int, int], int] = {}
        self._seen: dict[Uuid, tuple[array[int], array[int]]] = {}
        """Topic → the leaders and leader epochs of its partitions, when it was looked at last."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        image = node.image
        for topic_id, topic in image.topics_by_id.items():
            epochs = topic.leader_epoch
            if (topic.leader, epochs) == self._seen.get(topic_id):
                continue  # nothing of it has changed, or another node has shown it before
            self._seen[topic_id] = (topic.leader[:], epochs[:])
            for index, leader in enumerate(topic.leader):
                if leader < 0:
                    continue
                key = (topic_id, index, epochs[index])
                known = self.leaders.setdefault(key, leader)
                if known != leader:
                    raise Violation(
                        f"{topic.name}-{index}, leader epoch {epochs[index]}:"
                        f" leaders {known} and {leader} (node {node.id})"
                    )
