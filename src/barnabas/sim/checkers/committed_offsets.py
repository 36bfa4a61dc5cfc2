"""Invariant 11, second half: a group's committed offset never goes back unasked.

What an active coordinator holds as committed for a group must be something that a member asked for, and
nothing older than the last commit that was acknowledged (see :mod:`barnabas.sim.offset_commits`).
"""

from __future__ import annotations

from array import array

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.offset_commits import Commits
from barnabas.types import OFFSETS_TOPIC, ZERO_UUID


class CommittedOffsetsStay(Checker):
    EVENTS_BETWEEN_CHECKS = 40

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._epochs = array("i")
        """By partition of the offsets topic: the newest leader epoch seen on any node."""
        self._topic_id, self._as_of = ZERO_UUID, -1
        """That topic's id, by the newest metadata seen: an operator may have it recreated."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        self._note_epochs(cluster)
        self._check_node(node)

    def finish(self, cluster: SimCluster) -> None:
        self._note_epochs(cluster)
        for node in cluster.up():
            self._check_node(node)

    def _note_epochs(self, cluster: SimCluster) -> None:
        """A coordinator that was deposed may not know it yet; what it holds is not asked for."""
        for node in cluster.up():
            image = node.image
            topic = image.topics_by_name.get(OFFSETS_TOPIC)
            if topic is None:
                continue
            if image.offset > self._as_of:
                self._as_of = image.offset
                if topic.id != self._topic_id:
                    self._topic_id, self._epochs = topic.id, array("i")
            if topic.id != self._topic_id or topic.leader_epoch == self._epochs:
                continue
            known, shown = self._epochs, topic.leader_epoch
            self._epochs = array("i", map(max, known, shown))
            self._epochs += shown[len(known) :] or known[len(shown) :]

    def _check_node(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        topic = broker.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None or topic.id != self._topic_id:
            return
        partition_for = broker.groups.partition_for
        for shard in serving(node):
            known = self._epochs[shard.partition] if shard.partition < len(self._epochs) else -1
            if shard.leader_epoch < known:
                continue
            offsets = shard.machine.offsets
            # Also of groups of which it knows nothing at all.
            here = {g for g in self._commits.groups() if partition_for(g) == shard.partition}
            for group_id in sorted(here.union(offsets.group_ids())):
                found = {place: value.offset for place, value in offsets.committed_items(group_id)}
                wrong = self._commits.check(group_id, found)
                if wrong:
                    raise Violation(f"coordinator on node {node.id}: {wrong}")
