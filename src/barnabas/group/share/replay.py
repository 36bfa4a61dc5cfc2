"""The replay of each record of a share group.

A record may name a member without metadata: the member is gone, and compaction keeps its records
for different times. Source: ``GroupMetadataManager.replay`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from barnabas.group.group_table import GroupTable
from barnabas.group.records import share_group_current_member_assignment_value as current
from barnabas.group.records import share_group_state_partition_metadata_value as state_record
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
from barnabas.group.records.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from barnabas.group.records.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from barnabas.group.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from barnabas.group.share.share_group import ShareGroup, ShareMember, StateTopic, StateTopics
from barnabas.types import Uuid
from barnabas.wire.schema import Message

SHARE_RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    key.API_KEY: (key, value)
    for key, value in (
        (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
        (ShareGroupMetadataKey, ShareGroupMetadataValue),
        (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
        (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
        (
            ShareGroupCurrentMemberAssignmentKey,
            current.ShareGroupCurrentMemberAssignmentValue,
        ),
        (
            ShareGroupStatePartitionMetadataKey,
            state_record.ShareGroupStatePartitionMetadataValue,
        ),
    )
}


def replay_share(table: GroupTable, key: Any, value: Any) -> None:
    """Apply one record."""
    groups = table.groups
    group = table.share(key.group_id)
    if value is None and isinstance(key, ShareGroupMetadataKey):
        if group is not None:
            groups.remove(key.group_id)
        return
    if group is None:
        if value is None:
            return  # the group is gone
        group = ShareGroup(key.group_id, table.journal)
        groups.put(key.group_id, group)
    _apply(group, key, value)


def _apply(group: ShareGroup, key: Any, value: Any) -> None:
    if isinstance(key, ShareGroupMetadataKey):
        group.set_epoch(value.epoch, value.metadata_hash)
    elif isinstance(key, ShareGroupMemberMetadataKey):
        if value is None:
            group.remove_member(key.member_id)
        else:
            group.put_member(_described(group.members.get(key.member_id), key.member_id, value))
    elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
        if value is None:
            group.set_assignment_epoch(-1, 0)
        else:
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
    elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
        if value is None:
            group.targets.remove(key.member_id)
        else:
            target = {part.topic_id: frozenset(part.partitions) for part in value.topic_partitions}
            group.targets.put(key.member_id, target)
    elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
        _apply_current(group, key.member_id, value)
    else:
        group.set_state_topics(None if value is None else _state_topics(value))


def _described(
    old: ShareMember | None, member_id: str, value: ShareGroupMemberMetadataValue
) -> ShareMember:
    return replace(
        old or ShareMember(member_id),
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
    )


def _apply_current(
    group: ShareGroup,
    member_id: str,
    value: current.ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    old = group.members.get(member_id)
    if value is None:
        if old is not None:
            group.put_member(replace(old, epoch=-1, previous_epoch=-1, assigned={}))
        return
    group.put_member(
        replace(
            old or ShareMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={
                part.topic_id: frozenset(part.partitions) for part in value.assigned_partitions
            },
        )
    )


def _state_topics(value: state_record.ShareGroupStatePartitionMetadataValue) -> StateTopics:
    return StateTopics(
        _topics(value.initializing_topics),
        _topics(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _topics(parts: Iterable[state_record.TopicPartitionsInfo]) -> dict[Uuid, StateTopic]:
    return {
        part.topic_id: StateTopic(part.topic_name, frozenset(part.partitions)) for part in parts
    }
