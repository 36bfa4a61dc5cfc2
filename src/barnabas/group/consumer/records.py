"""The records of a consumer group, one function for each kind of change.

Lists are sorted, so that equal states give equal bytes.

Source: ``GroupCoordinatorRecordHelpers`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.group.consumer.member import Assigned, ConsumerMember, Target
from barnabas.group.record_codec import GroupRecord
from barnabas.group.records import (
    consumer_group_current_member_assignment_value as current,
)
from barnabas.group.records import consumer_group_member_metadata_value as metadata
from barnabas.group.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.group.records.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from barnabas.group.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.group.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.group.records.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from barnabas.group.records.consumer_group_regular_expression_key import (
    ConsumerGroupRegularExpressionKey,
)
from barnabas.group.records.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from barnabas.group.records.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from barnabas.group.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.group.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.group.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """The record of a member that joined, or whose description changed."""
    value = metadata.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
    )
    # Null has to be set: the field's default is an empty structure.
    value.classic_member_metadata = None
    if member.classic is not None:
        value.classic_member_metadata = metadata.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                metadata.ClassicProtocol(name=name, metadata=data)
                for name, data in member.classic.protocols
            ],
        )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """The record of the group's new epoch."""
    return GroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_record(group_id: str, member_id: str, target: Target) -> GroupRecord:
    """The record of the partitions that a member shall have."""
    parts = [
        TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
        for topic_id in sorted(target)
    ]
    return GroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=parts),
    )


def assignment_epoch_record(group_id: str, epoch: int, wall_ms: int) -> GroupRecord:
    """The record that the target assignment is the one of `epoch`."""
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        ),
    )


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """The record of a member's current assignment."""
    return GroupRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        current.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=int(member.state),
            assigned_partitions=_parts(member.assigned),
            partitions_pending_revocation=_parts(member.revoking),
        ),
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> GroupRecord:
    """The record of the topics that a regular expression matches."""
    return GroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.resolved_ms,
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    """The tombstone of an expression by which no member subscribes any more."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return GroupRecord(key, None)


def subscription_tombstone(group_id: str) -> GroupRecord:
    """The tombstone of the topics' metadata, which are a hash since 4.1 (KIP-1101)."""
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of a member that is gone, in the order that Kafka writes."""
    return [
        GroupRecord(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(
            ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(
    group: ConsumerGroup, renamed: Mapping[str, str] | None = None
) -> list[GroupRecord]:
    """The tombstones of a group. `renamed` has the new ids of members whose ids changed."""
    group_id, names = group.group_id, renamed or {}
    members = [
        member_tombstones(group_id, names.get(name, name)) for name, _ in group.members.items()
    ]
    return [
        *(records[0] for records in members),
        *(records[1] for records in members),
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(records[2] for records in members),
        *(regex_tombstone(group_id, regex) for regex, _ in group.regexes.items()),
        subscription_tombstone(group_id),
        GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _parts(assigned: Assigned) -> list[current.TopicPartitions]:
    parts = []
    for topic_id in sorted(assigned):
        partitions = sorted(assigned[topic_id])
        epochs = [assigned[topic_id][partition] for partition in partitions]
        parts.append(
            current.TopicPartitions(
                topic_id=topic_id, partitions=partitions, assignment_epochs=epochs
            )
        )
    return parts
