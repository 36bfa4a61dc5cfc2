"""StreamsGroupDescribe: the committed state of a streams group.

Source: ``StreamsGroup.asDescribedGroup`` of Apache Kafka 4.4; KIP-1071, KIP-1331.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.group.group_table import GroupTable
from barnabas.group.streams.configured_topology import ConfiguredSubtopology, InternalTopic
from barnabas.group.streams.member import NOTHING, StreamsMember, TaskId
from barnabas.group.streams.records import by_subtopology
from barnabas.group.streams.streams_group import StreamsGroup, TaskOffsets
from barnabas.group.streams.topology import Subtopology, TopicInfo
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_describe_response as answers
from barnabas.wire.messages.streams_group_describe_response import DescribedGroup

ASSIGNOR = "sticky"


def describe_streams_group(table: GroupTable, group_id: str) -> DescribedGroup:
    """The answer for one group; its error is GROUP_ID_NOT_FOUND where `group_id` is no streams group."""
    try:
        table.committed_group(group_id)
        group = table.streams(group_id, committed=True)
        if group is None:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group."
            )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    epochs, target = group.committed_epochs()
    return DescribedGroup(
        group_id=group_id,
        group_state=group.committed_state().value,
        group_epoch=epochs.epoch,
        assignment_epoch=target.epoch,
        topology=_topology(group),
        members=[_member(group, member) for _, member in sorted(group.members.committed_items())],
        assignor_name=ASSIGNOR,
    )


def _topology(group: StreamsGroup) -> answers.Topology | None:
    """The topology with the partition counts that are known: those of the application where the topics do
    not fit it."""
    topology, configured = group.committed_topology(), group.configured
    if topology is None:
        return None
    if configured is not None and configured.is_ready and configured.topology == topology:
        parts = [_configured(part_id, part) for part_id, part in configured.subtopologies.items()]
    else:
        parts = [_declared(part) for part in topology.subtopologies]
    return answers.Topology(epoch=topology.epoch, subtopologies=parts)


def _configured(part_id: str, part: ConfiguredSubtopology) -> answers.Subtopology:
    return answers.Subtopology(
        subtopology_id=part_id,
        source_topics=sorted(part.sources),
        repartition_sink_topics=sorted(part.repartition_sinks),
        state_changelog_topics=_internal(part.changelogs),
        repartition_source_topics=_internal(part.repartition_sources),
    )


def _internal(topics: Mapping[str, InternalTopic]) -> list[answers.TopicInfo]:
    return [_topic(topics[name]) for name in sorted(topics)]


def _declared(part: Subtopology) -> answers.Subtopology:
    return answers.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=sorted(part.sources),
        repartition_sink_topics=sorted(part.repartition_sinks),
        state_changelog_topics=_by_name(part.changelogs),
        repartition_source_topics=_by_name(part.repartition_sources),
    )


def _by_name(topics: Iterable[TopicInfo]) -> list[answers.TopicInfo]:
    return [_topic(topic) for topic in sorted(topics, key=lambda topic: topic.name)]


def _topic(topic: TopicInfo | InternalTopic) -> answers.TopicInfo:
    return answers.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[answers.KeyValue(key=key, value=value) for key, value in topic.configs],
    )


def _member(group: StreamsGroup, member: StreamsMember) -> answers.Member:
    member_id, held, endpoint = member.member_id, member.assigned, member.endpoint
    target = group.targets.committed(member_id) or NOTHING
    return answers.Member(
        member_id=member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else answers.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[answers.KeyValue(key=key, value=value) for key, value in member.tags],
        task_offsets=_offsets(group.task_offsets.get(member_id)),
        task_end_offsets=_offsets(group.task_end_offsets.get(member_id)),
        assignment=_assignment(held.active, held.standby, held.warmup),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
    )


def _assignment(
    active: Iterable[TaskId], standby: Iterable[TaskId], warmup: Iterable[TaskId]
) -> answers.Assignment:
    return answers.Assignment(
        active_tasks=_task_ids(active),
        standby_tasks=_task_ids(standby),
        warmup_tasks=_task_ids(warmup),
    )


def _task_ids(tasks: Iterable[TaskId]) -> list[answers.TaskIds]:
    return [
        answers.TaskIds(subtopology_id=part_id, partitions=partitions)
        for part_id, partitions in by_subtopology(tasks)
    ]


def _offsets(offsets: TaskOffsets | None) -> list[answers.TaskOffset]:
    return [
        answers.TaskOffset(subtopology_id=part_id, partition=index, offset=offset)
        for (part_id, index), offset in sorted((offsets or {}).items())
    ]
