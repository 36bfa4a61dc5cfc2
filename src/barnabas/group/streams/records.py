"""The records of a streams group: what each change writes.

Lists are sorted, so that equal states give equal bytes. Source: ``StreamsCoordinatorRecordHelpers`` of
Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.group.record_codec import GroupRecord
from barnabas.group.records import streams_group_current_member_assignment_value as current
from barnabas.group.records import streams_group_member_metadata_value as member_value
from barnabas.group.records import streams_group_metadata_value as group_value
from barnabas.group.records import streams_group_target_assignment_member_value as target_value
from barnabas.group.records import streams_group_topology_value as topology_value
from barnabas.group.records.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from barnabas.group.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from barnabas.group.records.streams_group_metadata_key import StreamsGroupMetadataKey
from barnabas.group.records.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from barnabas.group.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from barnabas.group.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from barnabas.group.records.streams_group_topology_key import StreamsGroupTopologyKey
from barnabas.group.streams.member import StreamsMember, TaskId, TaskRoles
from barnabas.group.streams.streams_group import Epochs, TargetEpoch
from barnabas.group.streams.topology import StreamsTopology, Subtopology, TopicInfo


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    """A member came, or what it says of itself changed."""
    endpoint = member.endpoint
    return GroupRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        member_value.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None
            if endpoint is None
            else member_value.Endpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[member_value.KeyValue(key=key, value=value) for key, value in member.tags],
        ),
    )


def epochs_record(group_id: str, epochs: Epochs) -> GroupRecord:
    """The group has a new epoch, or another of its numbers changed."""
    return GroupRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        group_value.StreamsGroupMetadataValue(
            epoch=epochs.epoch,
            metadata_hash=epochs.metadata_hash,
            validated_topology_epoch=epochs.validated_topology,
            last_assignment_configs=[
                group_value.LastAssignmentConfig(key=key, value=value)
                for key, value in epochs.settings
            ],
            stored_description_topology_epoch=epochs.stored_description,
            failed_description_topology_epoch=epochs.failed_description,
        ),
    )


def topology_record(group_id: str, topology: StreamsTopology) -> GroupRecord:
    """The group has a topology."""
    return GroupRecord(
        StreamsGroupTopologyKey(group_id=group_id),
        topology_value.StreamsGroupTopologyValue(
            epoch=topology.epoch,
            subtopologies=[_subtopology(part) for part in topology.subtopologies],
        ),
    )


def target_record(group_id: str, member_id: str, target: TaskRoles) -> GroupRecord:
    """The tasks that a member shall have."""
    roles = [
        [
            target_value.TaskIds(subtopology_id=part, partitions=partitions)
            for part, partitions in by_subtopology(tasks)
        ]
        for tasks in (target.active, target.standby, target.warmup)
    ]
    return GroupRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        target_value.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=roles[0], standby_tasks=roles[1], warmup_tasks=roles[2]
        ),
    )


def target_epoch_record(group_id: str, target: TargetEpoch) -> GroupRecord:
    """The target assignment is that of an epoch."""
    return GroupRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=target.epoch, assignment_timestamp=target.wall_ms
        ),
    )


def current_record(group_id: str, member: StreamsMember) -> GroupRecord:
    """The tasks that a member has."""
    assigned, revoking = member.assigned, member.revoking
    return GroupRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        current.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            active_tasks=_with_epochs(assigned.active),
            standby_tasks=_without_epochs(assigned.standby),
            warmup_tasks=_without_epochs(assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(revoking.active),
            standby_tasks_pending_revocation=_without_epochs(revoking.standby),
            warmup_tasks_pending_revocation=_without_epochs(revoking.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """A member is gone. In this order."""
    return [
        GroupRecord(
            StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(
            StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str) -> list[GroupRecord]:
    """The group, which has no members, is gone."""
    return [
        GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        GroupRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        GroupRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def by_subtopology(tasks: Iterable[TaskId]) -> list[tuple[str, list[int]]]:
    """The partitions of each subtopology, all sorted."""
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return list(found.items())


def _with_epochs(tasks: Mapping[TaskId, int]) -> list[current.TaskIds]:
    return [
        current.TaskIds(
            subtopology_id=part,
            partitions=partitions,
            assignment_epochs=[tasks[TaskId(part, partition)] for partition in partitions],
        )
        for part, partitions in by_subtopology(tasks)
    ]


def _without_epochs(tasks: Iterable[TaskId]) -> list[current.TaskIds]:
    return [
        current.TaskIds(subtopology_id=part, partitions=partitions)
        for part, partitions in by_subtopology(tasks)
    ]


def _subtopology(part: Subtopology) -> topology_value.Subtopology:
    return topology_value.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=list(part.sources),
        source_topic_regex=list(part.source_regexes),
        state_changelog_topics=[_topic(topic) for topic in part.changelogs],
        repartition_sink_topics=list(part.repartition_sinks),
        repartition_source_topics=[_topic(topic) for topic in part.repartition_sources],
        copartition_groups=[
            topology_value.CopartitionGroup(
                source_topics=list(group.sources),
                source_topic_regex=list(group.source_regexes),
                repartition_source_topics=list(group.repartition_sources),
            )
            for group in part.copartition_groups
        ],
    )


def _topic(topic: TopicInfo) -> topology_value.TopicInfo:
    return topology_value.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[topology_value.TopicConfig(key=k, value=v) for k, v in topic.configs],
    )
