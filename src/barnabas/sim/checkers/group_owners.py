"""Invariant 11, first half: a partition has at most one owner per group generation.

Looks at the coordinators' groups once they are stable: each generation's assignment is read once per
coordinator, and all coordinators that ever served a group must have said the same.
:meth:`barnabas.sim.history.History.on_assigned` judges the same from the members' side.
"""

from __future__ import annotations

from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment
from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import OFFSETS_TOPIC, TopicPartition, Uuid

Generation = tuple[str, int, Uuid]
"""Of a group; generations begin again at 1 where the offsets topic is recreated."""


class OneOwnerPerGeneration(Checker):
    EVERY = 20

    def __init__(self) -> None:
        self._owners: dict[Generation, dict[TopicPartition, str]] = {}
        self._seen: dict[tuple[int, int], set[Generation]] = {}
        """(node, life) → the generations already read there."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        seen = self._seen.setdefault((node.id, node.machine.starts), set())
        for shard in serving(node):
            assert node.node is not None
            topic = node.node.metadata.image.topics_by_name.get(OFFSETS_TOPIC)
            if topic is None:
                return
            for group_id, group in shard.machine.table.groups.committed_items():
                if isinstance(group, ConsumerGroup):
                    check_owners(group, node.id)
                    continue
                key = (group_id, group.generation, topic.id)
                if key not in seen and group.is_in(GroupState.STABLE):
                    seen.add(key)
                    self._read(node, key, group)

    def forget(self, group_id: str) -> None:
        """The group has expired: one of its name begins with the first generation again."""
        for key in [key for key in self._owners if key[0] == group_id]:
            del self._owners[key]

    def _read(self, node: SimNode, key: Generation, group: ClassicGroup) -> None:
        if group.protocol_type != PROTOCOL_TYPE:
            return
        owners: dict[TopicPartition, str] = {}
        for member_id, member in sorted(group.members.items()):
            owner = member.instance_id or member_id  # a static member may return under another id
            for partition in read_assignment(member.assignment):
                other = owners.setdefault(partition, owner)
                if other != owner:
                    raise Violation(
                        f"group {key[0]}, generation {key[1]}: {other} and {owner} both own"
                        f" {partition} (coordinator on node {node.id})"
                    )
        known = self._owners.setdefault(key, owners)
        for partition, owner in owners.items():
            if known.get(partition, owner) != owner:
                raise Violation(
                    f"group {key[0]}, generation {key[1]}: {partition} belongs to"
                    f" {known[partition]} and, says node {node.id}, to {owner}"
                )


def check_owners(group: ConsumerGroup, node: int) -> None:
    """What is committed of a consumer group: each partition belongs to one member, given up or not."""
    owners: dict[tuple[Uuid, int], str] = {}
    for member_id, member in group.members.committed_items():
        for assigned in (member.assigned, member.revoking):
            for topic_id, partitions in assigned.items():
                for partition in partitions:
                    other = owners.setdefault((topic_id, partition), member_id)
                    if other != member_id:
                        raise Violation(
                            f"group {group.group_id}, epoch {group.committed_epochs()[0]}: {other} and"
                            f" {member_id} both own partition {partition} of {topic_id.hex()}"
                            f" (coordinator on node {node})"
                        )
    epoch, assignment_epoch = group.committed_epochs()
    if assignment_epoch > epoch:
        raise Violation(
            f"group {group.group_id}: the assignment of epoch {assignment_epoch} is newer than the"
            f" group's, {epoch} (coordinator on node {node})"
        )
