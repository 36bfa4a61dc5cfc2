"""The target assignment of a group's epoch: the partitions that every member shall have.

Source: ``TargetAssignmentBuilder`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.assignors import ASSIGNORS
from barnabas.group.consumer.assignors.spec import GroupSpec, Steps, Targets
from barnabas.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.group.consumer.member import ConsumerMember, Target
from barnabas.group.consumer.records import assignment_epoch_record, target_record
from barnabas.group.record_codec import GroupRecord
from barnabas.types import Uuid

Regexes = Mapping[str, ResolvedRegex]


def subscribed_ids(
    member: ConsumerMember, regexes: Regexes, cluster: ClusterTopics
) -> frozenset[Uuid]:
    """The existing topics to which the member subscribes."""
    names = member.topics
    resolved = regexes.get(member.regex) if member.regex else None
    if resolved is not None:
        names = (*names, *resolved.topics)
    ids = (cluster.id_of(name) for name in names)
    return frozenset(topic_id for topic_id in ids if topic_id is not None)


def assignment_of(
    members: Mapping[str, ConsumerMember],
    previous: Mapping[str, Target],
    regexes: Regexes,
    cluster: ClusterTopics,
    default_assignor: str,
) -> tuple[int, Steps]:
    """The size of the assignment, and the steps that compute it with the assignor that most members
    prefer. `members` are those of the new epoch, `previous` has their last targets."""
    known: dict[tuple[tuple[str, ...], str], frozenset[Uuid]] = {}
    subscriptions: dict[str, frozenset[Uuid]] = {}
    for member_id in sorted(members):
        member = members[member_id]
        key = (member.topics, member.regex)
        ids = known.get(key)
        if ids is None:
            ids = known[key] = subscribed_ids(member, regexes, cluster)
        subscriptions[member_id] = ids
    wanted = {topic_id for ids in known.values() for topic_id in ids}
    partitions = {topic_id: cluster.partitions_of(topic_id) for topic_id in sorted(wanted)}
    spec = GroupSpec(subscriptions, previous, partitions)
    return spec.work, ASSIGNORS[preferred_assignor(members, default_assignor)](spec)


def preferred_assignor(members: Mapping[str, ConsumerMember], default: str) -> str:
    """The assignor that most members name; among equals the first by name."""
    votes: dict[str, int] = {}
    for member in members.values():
        if member.assignor is not None and member.assignor in ASSIGNORS:
            votes[member.assignor] = votes.get(member.assignor, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name)) if votes else default


def target_records(
    group: ConsumerGroup, targets: Targets, epoch: int, wall_ms: int
) -> list[GroupRecord]:
    """The records of the differences from the present target assignment, and of its epoch."""
    group_id = group.group_id
    records = [
        target_record(group_id, member_id, target)
        for member_id, target in targets.items()
        if group.targets.get(member_id) != target
    ]
    return [*records, assignment_epoch_record(group_id, epoch, wall_ms)]
