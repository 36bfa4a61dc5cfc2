"""The replay of the records of streams groups.

Source: ``GroupMetadataManager.replay`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from barnabas.group.group_table import GroupTable
from barnabas.group.records import streams_group_current_member_assignment_value as current
from barnabas.group.records.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from barnabas.group.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from barnabas.group.records.streams_group_member_metadata_value import (
    StreamsGroupMemberMetadataValue,
)
from barnabas.group.records.streams_group_metadata_key import StreamsGroupMetadataKey
from barnabas.group.records.streams_group_metadata_value import StreamsGroupMetadataValue
from barnabas.group.records.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from barnabas.group.records.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from barnabas.group.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from barnabas.group.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from barnabas.group.records.streams_group_topology_key import StreamsGroupTopologyKey
from barnabas.group.records.streams_group_topology_value import StreamsGroupTopologyValue
from barnabas.group.streams.member import (
    HOLDS_NOTHING,
    HeldTasks,
    StreamsMember,
    StreamsMemberState,
    TaskId,
    TaskRoles,
    UserEndpoint,
)
from barnabas.group.streams.streams_group import NO_EPOCH, Epochs, StreamsGroup, TargetEpoch
from barnabas.group.streams.topology import topology_of
from barnabas.wire.schema import Message

STREAMS_RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    key.API_KEY: (key, value)
    for key, value in (
        (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
        (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
        (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
        (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
        (
            StreamsGroupCurrentMemberAssignmentKey,
            current.StreamsGroupCurrentMemberAssignmentValue,
        ),
        (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
    )
}
_STATES = {state.value: state for state in StreamsMemberState}


def replay_streams(table: GroupTable, key: Any, value: Any) -> None:
    """Take one record over."""
    groups = table.groups
    group = table.streams(key.group_id)
    if value is None and isinstance(key, StreamsGroupMetadataKey):
        if group is not None:
            groups.remove(key.group_id)
        return
    if group is None:
        if value is None:
            return  # of a group that is gone
        # A classic group of that name only held offsets, or its tombstone was compacted away.
        group = StreamsGroup(key.group_id, table.journal)
        groups.put(key.group_id, group)
    _apply(group, key, value)


def _apply(group: StreamsGroup, key: Any, value: Any) -> None:
    if isinstance(key, StreamsGroupMetadataKey):
        group.set_epochs(_epochs(value))
    elif isinstance(key, StreamsGroupTopologyKey):
        group.set_topology(None if value is None else topology_of(value))
    elif isinstance(key, StreamsGroupMemberMetadataKey):
        if value is None:
            group.remove_member(key.member_id)
        else:
            group.put_member(_described(group.members.get(key.member_id), key.member_id, value))
    elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
        if value is None:
            group.set_target_epoch(TargetEpoch(NO_EPOCH))
        else:
            target = TargetEpoch(value.assignment_epoch, value.assignment_timestamp)
            group.set_target_epoch(target)
    elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
        if value is None:
            group.targets.remove(key.member_id)
        else:
            group.targets.put(
                key.member_id,
                TaskRoles(
                    tasks_of(value.active_tasks),
                    tasks_of(value.standby_tasks),
                    tasks_of(value.warmup_tasks),
                ),
            )
    else:
        _apply_current(group, key.member_id, value)


def tasks_of(messages: Iterable[Any] | None) -> frozenset[TaskId]:
    """Tasks from a list of subtopologies with their partitions."""
    return frozenset(
        TaskId(message.subtopology_id, partition)
        for message in messages or ()
        for partition in message.partitions
    )


def _epochs(value: StreamsGroupMetadataValue) -> Epochs:
    settings = value.last_assignment_configs or ()
    return Epochs(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
        tuple(sorted((setting.key, setting.value) for setting in settings)),
    )


def _described(
    old: StreamsMember | None, member_id: str, value: StreamsGroupMemberMetadataValue
) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        old or StreamsMember(member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        tags=tuple(sorted((tag.key, tag.value) for tag in value.client_tags)),
    )


def _apply_current(
    group: StreamsGroup,
    member_id: str,
    value: current.StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    old = group.members.get(member_id)
    if value is None:
        if old is not None:
            group.put_member(
                replace(
                    old,
                    epoch=NO_EPOCH,
                    previous_epoch=NO_EPOCH,
                    assigned=HOLDS_NOTHING,
                    revoking=HOLDS_NOTHING,
                )
            )
        return
    group.put_member(
        replace(
            old or StreamsMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, StreamsMemberState.UNKNOWN),
            assigned=HeldTasks(
                _with_epochs(value.active_tasks, value.member_epoch),
                tasks_of(value.standby_tasks),
                tasks_of(value.warmup_tasks),
            ),
            revoking=HeldTasks(
                _with_epochs(value.active_tasks_pending_revocation, value.member_epoch),
                tasks_of(value.standby_tasks_pending_revocation),
                tasks_of(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _with_epochs(messages: Iterable[current.TaskIds], epoch: int) -> dict[TaskId, int]:
    """Active tasks with the epochs of their assignment: the member's `epoch` where a record has none."""
    found: dict[TaskId, int] = {}
    for message in messages:
        epochs = message.assignment_epochs or ()
        if len(epochs) != len(message.partitions):
            epochs = [epoch] * len(message.partitions)
        for partition, assigned in zip(message.partitions, epochs, strict=True):
            found[TaskId(message.subtopology_id, partition)] = assigned
    return found
