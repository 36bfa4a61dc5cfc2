"""The records of a share group, one function for each kind of change.

Lists are sorted, so that equal states give equal bytes. Source: ``GroupCoordinatorRecordHelpers`` of Apache
Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.group.record_codec import GroupRecord
from barnabas.group.records import share_group_current_member_assignment_value as current
from barnabas.group.records import share_group_state_partition_metadata_value as state_record
from barnabas.group.records import share_group_target_assignment_member_value as target_value
from barnabas.group.records.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from barnabas.group.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from barnabas.group.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from barnabas.group.records.share_group_metadata_key import ShareGroupMetadataKey
from barnabas.group.records.share_group_metadata_value import ShareGroupMetadataValue
from barnabas.group.records.share_group_state_partition_metadata_key import (
    ShareGroupStatePartitionMetadataKey,
)
from barnabas.group.records.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from barnabas.group.records.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from barnabas.group.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from barnabas.group.share.share_group import (
    ShareGroup,
    ShareMember,
    StateTopic,
    StateTopics,
    Target,
)
from barnabas.types import Uuid


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    """The record of a member that joined, or whose description changed."""
    return GroupRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        ),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """The record of the group's new epoch."""
    return GroupRecord(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_record(group_id: str, member_id: str, target: Target) -> GroupRecord:
    """The record of the partitions that a member shall have."""
    parts = [
        target_value.TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
        for topic_id in sorted(target)
    ]
    return GroupRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        target_value.ShareGroupTargetAssignmentMemberValue(topic_partitions=parts),
    )


def assignment_epoch_record(group_id: str, epoch: int, wall_ms: int) -> GroupRecord:
    """The record that the target assignment is the one of `epoch`."""
    return GroupRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        ),
    )


def current_record(group_id: str, member: ShareMember) -> GroupRecord:
    """The record of the partitions that a member has."""
    return GroupRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        current.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=0,
            assigned_partitions=[
                current.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(member.assigned.items())
            ],
        ),
    )


def state_topics_record(group_id: str, states: StateTopics) -> GroupRecord:
    """The record of the partitions with state at the share coordinator."""
    return GroupRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        state_record.ShareGroupStatePartitionMetadataValue(
            initializing_topics=_parts(states.initializing),
            initialized_topics=_parts(states.initialized),
            deleting_topics=[
                state_record.TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(states.deleting.items())
            ],
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of a member that is gone, in the order that Kafka writes."""
    return [
        GroupRecord(
            ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(
            ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ShareGroup) -> list[GroupRecord]:
    """The tombstones of a group without members."""
    group_id = group.group_id
    return [
        GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        GroupRecord(ShareGroupMetadataKey(group_id=group_id), None),
    ]


def _parts(topics: Mapping[Uuid, StateTopic]) -> list[state_record.TopicPartitionsInfo]:
    return [
        state_record.TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in sorted(topics.items())
    ]
