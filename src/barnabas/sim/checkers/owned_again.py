"""Invariant 11, liveness: after healing every partition that a group subscribes to has an owner.

Looks at what the coordinators hold as committed, not at what members read: a coordinator that forgot an owner
gives the partition away at its next chance, or to no member at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment, read_subscription
from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster
from barnabas.types import TopicPartition


def unowned(cluster: SimCluster, groups: Iterable[str]) -> str:
    """The first partition of `groups` that has no owner; the empty string where each has one."""
    wanted = dict.fromkeys(groups, "it has no coordinator")
    for node in cluster.up():
        for shard in serving(node):
            image = node.image
            for group_id, group in shard.machine.table.groups.committed_items():
                if group_id in wanted and isinstance(group, (ClassicGroup, ConsumerGroup)):
                    wanted[group_id] = _missing(group, image)
    return next((f"{group}: {why}" for group, why in sorted(wanted.items()) if why), "")


def _missing(group: ClassicGroup | ConsumerGroup, image: MetadataImage) -> str:
    if isinstance(group, ConsumerGroup):
        topics, owned = _of_consumer_group(group, image)
    else:
        if not group.is_in(GroupState.STABLE) or group.protocol_type != PROTOCOL_TYPE:
            return f"it is {group.state.value}"
        topics, owned = _of_classic_group(group)
    if not topics:
        return "it has no members"
    for name in sorted(topics):
        topic = image.topics_by_name.get(name)
        for index in range(0 if topic is None else len(topic)):
            if TopicPartition(name, index) not in owned:
                return f"{name}-{index} has no owner"
    return ""


def _of_consumer_group(
    group: ConsumerGroup, image: MetadataImage
) -> tuple[set[str], set[TopicPartition]]:
    topics: set[str] = set()
    owned: set[TopicPartition] = set()
    for _, member in group.members.committed_items():
        topics.update(member.topics)
        for topic_id, partitions in member.assigned.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                owned.update(TopicPartition(topic.name, index) for index in partitions)
    return topics, owned


def _of_classic_group(group: ClassicGroup) -> tuple[set[str], set[TopicPartition]]:
    topics: set[str] = set()
    owned: set[TopicPartition] = set()
    for member in group.members.values():
        topics.update(read_subscription(member.metadata(group.protocol_name)))
        owned.update(read_assignment(member.assignment))
    return topics, owned
