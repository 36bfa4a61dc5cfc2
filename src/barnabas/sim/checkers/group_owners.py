"""Invariant 11, first half: a partition has at most one owner per group generation.

Looks at the coordinators' groups once they are stable: each generation's assignment is read once per
coordinator, and all coordinators that ever served a group must have said the same.
:meth:`barnabas.sim.history.History.on_assigned` judges the same from the members' side.

What a member of a consumer group that has left still owns does not count, where tombstones go so soon
(``log.cleaner.delete.retention.ms``) that a replica which was away never receives them (seeds 60456, 61130):
compaction takes them from the leader's log, the replica keeps the member's records and later coordinates
the group with them. Kafka 4.3 loads such a log too: ``ConsumerGroup.addPartitionEpochs`` lets the newer epoch
have a partition that has an owner. Such a member loses its session in the end, and `finish` excepts none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment
from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import OFFSETS_TOPIC, TopicPartition, Uuid

Generation = tuple[str, int, Uuid]
"""The generation of a group; generations begin again at 1 where the offsets topic is recreated."""
Place = tuple[Uuid, int]
"""Id of the offsets topic, and which of its partitions."""


class Left(NamedTuple):
    """A member that was there is not there any more."""

    leader_epoch: int
    """The leader epoch of the coordinator that no longer has it."""
    group_epoch: int
    """No epoch that it had is newer."""


class Departures:
    """Which members left the consumer groups of one partition of the offsets topic, by what its coordinators
    have committed."""

    def __init__(self) -> None:
        self._leader_epoch = -1
        self._here: dict[str, dict[str, int]] = {}
        """Group → member → the group's epoch when it was seen last."""
        self._left: dict[tuple[str, str], Left] = {}

    def check_groups(self, leader_epoch: int, groups: Mapping[str, ConsumerGroup]) -> None:
        """A coordinator of `leader_epoch` has these. One that was deposed tells nothing."""
        if leader_epoch < self._leader_epoch:
            return
        self._leader_epoch = leader_epoch
        for group_id in [*self._here, *(name for name in groups if name not in self._here)]:
            group = groups.get(group_id)
            here = {} if group is None else dict(group.members.committed_items())
            epoch = -1 if group is None else group.committed_epochs()[0]
            known = self._here.get(group_id, {})
            for member_id, seen in known.items():
                if member_id not in here:
                    self._left[group_id, member_id] = Left(leader_epoch, max(seen, epoch))
            for member_id, member in here.items():
                left = self._left.get((group_id, member_id))
                if left is not None and (
                    leader_epoch == left.leader_epoch or member.epoch > left.group_epoch
                ):
                    del self._left[group_id, member_id]  # it has joined again
            self._here[group_id] = dict.fromkeys(here, epoch)

    def of(self, group_id: str) -> frozenset[str]:
        """The members that left, and have not joined again."""
        return frozenset(member for group, member in self._left if group == group_id)


class OneOwnerPerGeneration(Checker):
    EVENTS_BETWEEN_CHECKS = 20

    def __init__(self, *, forgets_deletions: bool = False) -> None:
        """`forgets_deletions`: tombstones go so soon that a replica may never hear of one."""
        self._forgets_deletions = forgets_deletions
        self._departures: dict[Place, Departures] = {}
        self._owners: dict[Generation, dict[TopicPartition, str]] = {}
        self._seen: dict[tuple[int, int], set[Generation]] = {}
        """(node, life) → the generations already read there."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        seen = self._seen.setdefault((node.id, node.machine.starts), set())
        for shard in serving(node):
            topic = node.image.topics_by_name.get(OFFSETS_TOPIC)
            if topic is None:
                return
            consumer_groups: dict[str, ConsumerGroup] = {}
            for group_id, group in shard.machine.table.groups.committed_items():
                if isinstance(group, ConsumerGroup):
                    consumer_groups[group_id] = group
                    continue
                if not isinstance(group, ClassicGroup):
                    continue
                key = (group_id, group.generation, topic.id)
                if key not in seen and group.is_in(GroupState.STABLE):
                    seen.add(key)
                    self._read(node, key, group)
            place = (topic.id, shard.partition)
            self._check_consumer_groups(node, place, shard.leader_epoch, consumer_groups)

    def _check_consumer_groups(
        self, node: SimNode, place: Place, leader_epoch: int, groups: Mapping[str, ConsumerGroup]
    ) -> None:
        departures = None
        if self._forgets_deletions:
            departures = self._departures.setdefault(place, Departures())
            departures.check_groups(leader_epoch, groups)
        for group_id, group in groups.items():
            check_owners(group, node.id, () if departures is None else departures.of(group_id))

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            for shard in serving(node):
                for _, group in shard.machine.table.groups.committed_items():
                    if isinstance(group, ConsumerGroup):
                        check_owners(group, node.id)

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


def check_owners(group: ConsumerGroup, node: int, left: Collection[str] = ()) -> None:
    """Check the committed state of a consumer group: each partition belongs to one member, given up or
    not. The partitions that members in `left` still have do not count."""
    owners: dict[tuple[Uuid, int], str] = {}
    for member_id, member in group.members.committed_items():
        if member_id in left:
            continue
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
