"""The replay of each record of a consumer group.

A record may name a member without metadata: the member is gone, and compaction keeps its records
for different times. As in Kafka, such a member is created if it has state, and its own tombstone
removes it.

Source: ``GroupMetadataManager.replay`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from barnabas.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.group.consumer.member import (
    Assigned,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from barnabas.group.records import (
    consumer_group_current_member_assignment_value as current,
)
from barnabas.group.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.group.records.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from barnabas.group.records.consumer_group_member_metadata_value import (
    ConsumerGroupMemberMetadataValue,
)
from barnabas.group.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.group.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.group.records.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from barnabas.group.records.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
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
)
from barnabas.group.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.group.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.wire.schema import Message

CONSUMER_RECORDS: tuple[tuple[type[Message], type[Message]], ...] = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (
        ConsumerGroupCurrentMemberAssignmentKey,
        current.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)


def is_consumer_key(key: Message) -> bool:
    """Whether the key is that of a consumer group's record."""
    return isinstance(key, tuple(pair[0] for pair in CONSUMER_RECORDS))


def ends_group(key: Message, value: Message | None) -> bool:
    """Whether the record removes the whole group."""
    return value is None and isinstance(key, ConsumerGroupMetadataKey)


def apply(group: ConsumerGroup, key: Any, value: Any) -> None:
    """Apply one record, other than the tombstone of the group itself."""
    if isinstance(key, ConsumerGroupMetadataKey):
        group.set_epoch(value.epoch, value.metadata_hash)
    elif isinstance(key, ConsumerGroupPartitionMetadataKey):
        group.subscription_record = value is not None
    elif isinstance(key, ConsumerGroupMemberMetadataKey):
        if value is None:
            group.remove_member(key.member_id)
        else:
            group.put_member(_described(group.members.get(key.member_id), key.member_id, value))
    elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        if value is None:
            group.set_assignment_epoch(-1, 0)
        else:
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
    elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        if value is None:
            group.targets.remove(key.member_id)
        else:
            target = {part.topic_id: frozenset(part.partitions) for part in value.topic_partitions}
            group.targets.put(key.member_id, target)
    elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
        _apply_current(group, key.member_id, value)
    elif value is None:
        group.remove_regex(key.regular_expression)
    else:
        resolved = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)
        group.put_regex(key.regular_expression, resolved)


def _described(
    old: ConsumerMember | None, member_id: str, value: ConsumerGroupMemberMetadataValue
) -> ConsumerMember:
    classic = None
    given: Any = value.classic_member_metadata
    if given is not None and given.supported_protocols:  # a record without it has an empty one
        classic = ClassicMetadata(
            given.session_timeout_ms,
            tuple((item.name, bytes(item.metadata)) for item in given.supported_protocols),
        )
    return replace(
        old or ConsumerMember(member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=classic,
    )


def _apply_current(
    group: ConsumerGroup,
    member_id: str,
    value: current.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    old = group.members.get(member_id)
    if value is None:
        if old is not None:
            left = replace(
                old, epoch=-1, previous_epoch=-1, state=MemberState.STABLE, assigned={}, revoking={}
            )
            group.put_member(left)
        return
    states = {int(state): state for state in MemberState}
    member = replace(
        old or ConsumerMember(member_id),
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=states.get(value.state, MemberState.UNKNOWN),
        assigned=_assigned(value.assigned_partitions, value.member_epoch),
        revoking=_assigned(value.partitions_pending_revocation, value.member_epoch),
    )
    group.put_member(member)


def _assigned(parts: Sequence[current.TopicPartitions], member_epoch: int) -> Assigned:
    """The assigned partitions of a record. Brokers before 4.3 wrote no assignment epochs: the
    member's epoch takes their place."""
    assigned: dict[bytes, dict[int, int]] = {}
    for part in parts:
        epochs = part.assignment_epochs
        if epochs is None or len(epochs) != len(part.partitions):
            epochs = [member_epoch] * len(part.partitions)
        assigned.setdefault(part.topic_id, {}).update(zip(part.partitions, epochs))
    return assigned  # type: ignore[return-value]
