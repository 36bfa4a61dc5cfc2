"""Which member a heartbeat is of, and whether it may say so; what a request must and must not have.

Source: ``GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid``,
``GroupMetadataManager.getOrMaybeCreate*StreamsGroupMember`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.group_table import GroupTable
from barnabas.group.outcome import Caller
from barnabas.group.record_codec import GroupRecord, group_tombstone
from barnabas.group.streams.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    NOTHING,
    StreamsMember,
    TaskRoles,
    UserEndpoint,
)
from barnabas.group.streams.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from barnabas.group.streams.replay import tasks_of
from barnabas.group.streams.streams_group import StreamsGroup, detached
from barnabas.group.streams.topology import invalid_topology
from barnabas.limits import STREAMS_SUBTOPOLOGIES_MAX
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_heartbeat_request as asked
from barnabas.wire.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    TaskIds,
)

NOT_ALL = "If one task-type is non-null, all must be non-null."


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    roles = (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    )
    for part in () if request.topology is None else request.topology.subtopologies:
        if part.source_topic_regex:
            raise _invalid("Regular expressions for source topics are not supported yet.")
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request, roles)
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
        )
    elif request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    keys = [tag.key for tag in request.client_tags or ()]
    if len(keys) > len(set(keys)):
        # A duplicate is an UNKNOWN_SERVER_ERROR of Apache Kafka 4.4, after which clients try again.
        raise _invalid("ClientTags must not have a key twice.")
    given = [tasks is not None for _, tasks in roles]
    if any(given) and not all(given):
        raise _invalid(NOT_ALL)
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_join(
    request: StreamsGroupHeartbeatRequest,
    roles: Sequence[tuple[str, Sequence[TaskIds] | None]],
) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in roles:
        if tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    if len(request.topology.subtopologies) > STREAMS_SUBTOPOLOGIES_MAX:
        raise invalid_topology(
            f"The topology has {len(request.topology.subtopologies)} subtopologies, but"
            f" {STREAMS_SUBTOPOLOGIES_MAX} are allowed at most."
        )
    _check_changelogs(request.topology)


def _check_changelogs(topology: asked.Topology) -> None:
    for part in topology.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is"
                    f" set to {topic.partitions}."
                )


def group_to_join(
    table: GroupTable, request: StreamsGroupHeartbeatRequest, records: list[GroupRecord]
) -> StreamsGroup:
    """The streams group. Where a member joins and there is none, it is created: new, or in place of an empty
    classic group (`records` gets the record of that). Raises GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED."""
    group_id, joins = request.group_id, request.member_epoch == JOIN_EPOCH
    group = table.groups.get(group_id)
    known = table.streams(group_id)
    if known is None:
        if group is None and not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if isinstance(group, ClassicGroup) and joins and group.state is GroupState.EMPTY:
            records.append(group_tombstone(group_id))
        elif group is not None:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group."
            )
        known = detached(group_id)
    if joins:
        _check_room(table, known, request)
    return known


def _check_room(
    table: GroupTable, group: StreamsGroup, request: StreamsGroupHeartbeatRequest
) -> None:
    if group.static_member(request.instance_id) is not None:
        return
    limit = table.settings.streams_size_max
    if len(group.members) >= limit and request.member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {limit} members.",
        )


def owned_by(request: StreamsGroupHeartbeatRequest) -> TaskRoles | None:
    """The tasks that the member reports; None where it reports none, as it does when nothing changed."""
    if None in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        return None
    return TaskRoles(
        tasks_of(request.active_tasks),
        tasks_of(request.standby_tasks),
        tasks_of(request.warmup_tasks),
    )


def dynamic_member(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: TaskRoles | None
) -> StreamsMember:
    """The member, a new one where it joins. Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH."""
    if request.member_epoch == JOIN_EPOCH:
        return group.members.get(request.member_id) or StreamsMember(request.member_id)
    member = group.member(request.member_id)
    _check_epoch(member, request.member_epoch, owned)
    return member


def static_member(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: TaskRoles | None
) -> tuple[StreamsMember, StreamsMember | None]:
    """The member, and the one whose place it takes. Raises UNRELEASED_INSTANCE_ID, and what
    `present_member` raises."""
    instance_id, member_id = request.instance_id or "", request.member_id
    if request.member_epoch != JOIN_EPOCH:
        member = present_member(group, member_id, instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member, None
    known = group.static_member(instance_id)
    if known is None:
        return group.members.get(member_id) or StreamsMember(member_id), None
    if known.epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because"
            f" the instance id is owned by {known.member_id} member.",
        )
    return replace(known, member_id=member_id, epoch=0, previous_epoch=0), known


def present_member(group: StreamsGroup, member_id: str, instance_id: str) -> StreamsMember:
    """The member with the instance id. Raises UNKNOWN_MEMBER_ID where there is none, FENCED_INSTANCE_ID
    where its id is not `member_id`."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    return member


def replacing_records(
    group: StreamsGroup, old: StreamsMember, new: StreamsMember
) -> list[GroupRecord]:
    """A static member returned with a new id: the new member gets the state and the target of the old."""
    group_id = group.group_id
    return [
        *member_tombstones(group_id, old.member_id),
        member_record(group_id, new),
        target_record(group_id, new.member_id, group.targets.get(old.member_id) or NOTHING),
        current_record(group_id, new),
    ]


def _check_epoch(member: StreamsMember, epoch: int, owned: TaskRoles | None) -> None:
    # A member that did not receive the response with its last epoch may repeat the one before.
    repeats = (
        epoch == member.previous_epoch and owned is not None and member.assigned.contains(owned)
    )
    if epoch == member.epoch or (epoch < member.epoch and repeats):
        return
    side = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {side} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def described(
    old: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller
) -> StreamsMember:
    """The member with the values of the request; those that the request leaves out do not change."""
    timeout_ms, given, tags = (
        request.rebalance_timeout_ms,
        request.user_endpoint,
        request.client_tags,
    )
    endpoint = None if given is None else UserEndpoint(given.host, given.port)
    if endpoint is None and request.member_epoch != JOIN_EPOCH:
        endpoint = old.endpoint
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=old.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=old.process_id if request.process_id is None else request.process_id,
        endpoint=endpoint,
        tags=old.tags
        if tags is None
        else tuple(sorted({tag.key: tag.value for tag in tags}.items())),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
