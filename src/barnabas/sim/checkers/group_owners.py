"""Invariant 11, first half: a partition has at most one owner per group generation.

Looks at the coordinators' groups once they are stable: each generation's assignment is read once per
coordinator, and all coordinators that ever served a group must have said the same.
:meth:`barnabas.sim.history.History.on_assigned` judges the same from the members' side.
"""

from __future__ import annotations

from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment
from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import OFFSETS_TOPIC, TopicPartition, Uuid

Generation = tuple[str, int, Uuid]
"""Of a group; they begin anew where the groups' topic does."""


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
