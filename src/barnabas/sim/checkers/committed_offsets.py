"""Invariant 11, second half: a group's committed offset never goes back unless a client asks for that.

Each offset that a coordinator would tell a client now must come from a commit that a client requested, and
must not be older than the last commit that was acknowledged (see :mod:`barnabas.sim.offset_commits`). A
coordinator that refuses to be read tells nothing.
"""

from __future__ import annotations

from array import array
from functools import partial

from barnabas.group.machine import GroupMachine
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.offset_commits import Commits
from barnabas.types import OFFSETS_TOPIC, ZERO_UUID
from barnabas.wire.errors import KafkaError


class CommittedOffsetsStay(Checker):
    EVENTS_BETWEEN_CHECKS = 40

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._epochs = array("i")
        """The newest leader epoch seen on any node, by partition of the offsets topic."""
        self._topic_id, self._as_of = ZERO_UUID, -1
        """The id of the offsets topic, and the metadata offset of the newest image that was seen. An operator
        may delete the topic; its successor has another id."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        self._note_epochs(cluster)
        self._check_node(node)

    def finish(self, cluster: SimCluster) -> None:
        self._note_epochs(cluster)
        for node in cluster.up():
            self._check_node(node)

    def _note_epochs(self, cluster: SimCluster) -> None:
        """Note the newest leader epochs. A coordinator that was deposed may not know it yet: its older epoch
        shows that, and `_check_node` leaves it out."""
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
        for shard in broker.groups.shards.values():
            known = self._epochs[shard.partition] if shard.partition < len(self._epochs) else -1
            if shard.leader_epoch < known:
                continue
            # Groups that clients know and the coordinator does not are checked as well.
            here = {g for g in self._commits.groups() if partition_for(g) == shard.partition}
            for group_id in sorted(here.union(shard.machine.offsets.group_ids())):
                try:
                    found = broker.groups.read(group_id, partial(_committed, group_id=group_id))
                except KafkaError:
                    continue  # it is loading, or catching up
                wrong = self._commits.check(group_id, found)
                if wrong:
                    raise Violation(f"coordinator on node {node.id}: {wrong}")


def _committed(machine: GroupMachine, group_id: str) -> dict[tuple[str, int], int]:
    return {place: value.offset for place, value in machine.offsets.committed_items(group_id)}
