"""Describes, alters and deletes offsets of a share group, also with the whole group.

The share coordinator has the offsets; the group knows which partitions have any. One operation
notes the change and returns the request for the share coordinator; when that is done, a second
operation notes the result.

Source: ``GroupMetadataManager.alterShareGroupOffsets``, ``sharePartitionsEligibleForOffsetDeletion``,
``shareGroupBuildPartitionDeleteRequest`` and ``completeDeleteShareGroupOffsets`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from barnabas.group.classic_group import GroupState
from barnabas.group.group_table import GroupTable
from barnabas.group.outcome import GroupOutcome
from barnabas.group.record_codec import GroupRecord
from barnabas.group.share.heartbeat import Initialization, group_to_join, note_asked
from barnabas.group.share.records import state_topics_record
from barnabas.group.share.share_group import ShareGroup, StateTopic, StateTopics
from barnabas.group.share.state_topics import (
    Partitions,
    with_initialized,
    with_initializing,
    without_initializing,
    without_topics,
)
from barnabas.operation import Instant
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_share_group_offsets_request as alter_in
from barnabas.wire.messages import alter_share_group_offsets_response as alter_out
from barnabas.wire.messages import delete_share_group_offsets_response as delete_out


def initialized_partitions(table: GroupTable, group_id: str) -> dict[Uuid, tuple[str, list[int]]]:
    """Name and partitions, by topic id, of the topics with committed state."""
    group = table.groups.committed(group_id)
    if not isinstance(group, ShareGroup):
        return {}
    return {
        topic_id: (topic.name, sorted(topic.partitions))
        for topic_id, topic in sorted(group.committed_state_topics().initialized.items())
    }


def on_initialized(table: GroupTable, group_id: str, done: Partitions) -> GroupOutcome:
    """Note that the share coordinator has the states of `done`. Topics that were deleted meanwhile
    are dropped."""
    group = table.share(group_id)
    if group is None or not done:
        return GroupOutcome()
    for topic_id in done:
        group.initializing_since.pop(topic_id, None)
    states = without_topics(
        with_initialized(group.state_topics, done, table.cluster),
        [topic_id for topic_id in done if not table.cluster.partitions_of(topic_id)],
    )
    return GroupOutcome([state_topics_record(group_id, states)])


def on_not_initialized(table: GroupTable, group_id: str, failed: Partitions) -> GroupOutcome:
    """Note that the share coordinator was not reached, or refused: a later heartbeat asks again."""
    group = table.share(group_id)
    if group is None or not group.state_topics.initializing:
        return GroupOutcome()
    for topic_id in failed:
        group.initializing_since.pop(topic_id, None)
    states = without_initializing(group.state_topics, failed)
    return GroupOutcome([state_topics_record(group_id, states)])


def alter(
    table: GroupTable, request: alter_in.AlterShareGroupOffsetsRequest, at: Instant
) -> tuple[GroupOutcome, Initialization | None]:
    """AlterShareGroupOffsets: set new start offsets. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
    group = group_to_join(table, request.group_id, joins=True)
    if group.state is not GroupState.EMPTY:
        raise _not_empty(request.group_id)
    answers: list[alter_out.AlterShareGroupOffsetsResponseTopic] = []
    changed: dict[Uuid, StateTopic] = {}
    offsets: dict[Uuid, dict[int, int]] = {}
    for asked in request.topics:
        topic = table.cluster.named(asked.topic_name)
        count = 0 if topic is None else len(topic)
        answer = alter_out.AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        answer.partitions = [_altered(p.partition_index, count) for p in asked.partitions]
        answers.append(answer)
        if topic is None:
            continue
        answer.topic_id = topic.id
        known = {
            p.partition_index: p.start_offset
            for p in asked.partitions
            if 0 <= p.partition_index < count
        }
        if known:
            offsets[topic.id] = known
            changed[topic.id] = StateTopic(topic.name, frozenset(known))
    reply = alter_out.AlterShareGroupOffsetsResponse(responses=answers)
    if not changed:
        return GroupOutcome(reply=reply), None
    states = with_initializing(group.state_topics, changed)
    wanted = Initialization(request.group_id, group.epoch, offsets)
    records = [state_topics_record(request.group_id, states)]
    return GroupOutcome(records, reply, note_asked(table, wanted, at)), wanted


def _altered(index: int, count: int) -> alter_out.AlterShareGroupOffsetsResponsePartition:
    answer = alter_out.AlterShareGroupOffsetsResponsePartition(partition_index=index)
    if not 0 <= index < count:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = "This server does not host this topic-partition."
    return answer


def begin_delete(
    table: GroupTable, group_id: str, names: Iterable[str]
) -> tuple[GroupOutcome, Partitions, list[delete_out.DeleteShareGroupOffsetsResponseTopic]]:
    """DeleteShareGroupOffsets, first half: the partitions whose states the share coordinator has to
    delete, and the answers of topics without state. Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    group = _empty_group(table, group_id)
    states = group.state_topics
    initialized, deleting = dict(states.initialized), dict(states.deleting)
    wanted: dict[Uuid, frozenset[int]] = {}
    refused: list[delete_out.DeleteShareGroupOffsetsResponseTopic] = []
    for name in names:
        topic = table.cluster.named(name)
        if topic is not None and topic.id in initialized:
            wanted[topic.id] = initialized.pop(topic.id).partitions
            deleting[topic.id] = name
        elif topic is not None and topic.id in deleting:
            wanted[topic.id] = frozenset(range(len(topic)))
        else:
            refused.append(
                delete_out.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message="There is no offset information to delete.",
                )
            )
    if not wanted:
        return GroupOutcome(), {}, refused
    after = replace(states, initialized=initialized, deleting=deleting)
    return GroupOutcome([state_topics_record(group_id, after)]), wanted, refused


def on_deleted(table: GroupTable, group_id: str, topic_ids: Collection[Uuid]) -> GroupOutcome:
    """Note that the states of these topics are deleted."""
    group = table.share(group_id)
    if group is None:
        return GroupOutcome()
    states = group.state_topics
    left = {t: name for t, name in states.deleting.items() if t not in topic_ids}
    return GroupOutcome([state_topics_record(group_id, replace(states, deleting=left))])


def begin_delete_group(table: GroupTable, group_id: str) -> tuple[GroupOutcome, Partitions]:
    """The states to delete before the group is deleted. Raises GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP."""
    group = _empty_group(table, group_id)
    states = group.state_topics
    wanted: dict[Uuid, frozenset[int]] = {}
    names: dict[Uuid, str] = {}
    for topics in (states.initialized, states.initializing):
        for topic_id, topic in topics.items():
            wanted[topic_id] = wanted.get(topic_id, frozenset()) | topic.partitions
            names[topic_id] = topic.name
    for topic_id, name in states.deleting.items():
        count = table.cluster.partitions_of(topic_id)
        if count:
            wanted[topic_id] = frozenset(range(count))
            names[topic_id] = name
    if not wanted:
        return GroupOutcome(), {}
    record = state_topics_record(group_id, StateTopics(deleting=names))
    return GroupOutcome([record]), wanted


def delete_topics(table: GroupTable, topic_ids: Collection[Uuid]) -> list[GroupRecord]:
    """Drop the states of topics that no longer exist."""
    records: list[GroupRecord] = []
    for group_id, group in table.groups.items():
        if isinstance(group, ShareGroup) and group.has_state_record:
            after = without_topics(group.state_topics, topic_ids)
            if after != group.state_topics:
                records.append(state_topics_record(group_id, after))
    return records


def _empty_group(table: GroupTable, group_id: str) -> ShareGroup:
    group = table.share(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if group.state is not GroupState.EMPTY:
        raise _not_empty(group_id)
    return group


def _not_empty(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.NON_EMPTY_GROUP, f"The group {group_id} is not empty.")
