"""ConsumerGroupHeartbeat: a member joins, reports its subscription and its partitions, and receives its
assignment.

Source: ``GroupMetadataManager.consumerGroupHeartbeat`` of Apache Kafka 4.3; KIP-848.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.change import GroupChange
from barnabas.group.consumer.consumer_group import ConsumerGroup, detached
from barnabas.group.consumer.conversion.upgrade import upgrade
from barnabas.group.consumer.leaving import leave
from barnabas.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
    Owned,
    is_within,
    owned_of,
)
from barnabas.group.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.record_codec import GroupRecord, group_tombstone
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

SOON_MS = 500
"""Longest heartbeat interval, in ms, of a member that waits for partitions which others must give up."""
SETTLING_MS = 1_000
"""Longest heartbeat interval, in ms, of a member whose assignment has just changed. Members often
join and leave together, so the next assignment may soon take some of its partitions away."""
LEAST_MS = 50
"""Shortest heartbeat interval, in ms, of a member that waits for the next target assignment."""


def heartbeat(
    table: GroupTable, request: ConsumerGroupHeartbeatRequest, caller: Caller, at: Instant
) -> GroupOutcome:
    """Handle one heartbeat: a join, a leave (epoch below 0) or a regular one. Raises ``KafkaError``
    if the group, the member, its epoch or its subscription is wrong."""
    if request.member_epoch < JOIN_EPOCH:
        return leave(table, request, at)
    joins = request.member_epoch == JOIN_EPOCH
    records: list[GroupRecord] = []
    group = group_to_join(table, request.group_id, joins, records, at)
    check_room(table, group, request.member_id)
    member_id = request.member_id or table.random_uuid()
    change = GroupChange(table, group, at, records)
    owned = owned_by(request)
    if request.instance_id is None:
        old = _dynamic_member(group, member_id, request.member_epoch, owned)
    else:
        old = _static_member(change, member_id, request, owned)
    new = _described(old, request, caller)
    is_new = member_id not in group.members and member_id not in change.replaced
    topics_changed = change.describe(old, new, is_new=is_new)
    changed = change.resolve_regexes(old, new, caller) or topics_changed
    change.refresh(old, new, changed or group.is_empty or change.changes_assignor(old, new))
    target = change.retarget(new)
    new = change.reconcile(new, target, owned, changed=changed)
    session_ms = table.cluster.group_config(group.group_id, "consumer.session.timeout.ms")
    key = (GroupTimer.SESSION, group.group_id, member_id)
    table.timers.schedule(key, at.now_ms + session_ms)
    is_full = request.rebalance_timeout_ms != -1 and owned is not None
    is_full = is_full and not (
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None
    )
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=new.epoch,
    )
    has_changed = new.assigned != old.assigned
    response.heartbeat_interval_ms = _interval_ms(change, new, target[0], has_changed)
    if joins or is_full or has_changed:
        response.assignment = _assignment(new)
    return GroupOutcome(records=change.records, reply=response)


def group_to_join(
    table: GroupTable, group_id: str, joins: bool, records: list[GroupRecord], at: Instant
) -> ConsumerGroup:
    """The consumer group. If a member joins and there is none, the group is created: as a new
    group, in place of an empty classic group, or from a classic group with members (`records` gets
    the records of the conversion). Raises GROUP_ID_NOT_FOUND."""
    group = table.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None and joins:
        return detached(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if not joins or not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if group.state is GroupState.EMPTY:
        records.append(group_tombstone(group_id))
        empty = detached(group_id)
        empty.set_epoch(group.generation, 0)  # epochs continue the generations
        return empty
    return upgrade(table, group, records, at)


def check_room(table: GroupTable, group: ConsumerGroup, member_id: str) -> None:
    """Raises GROUP_MAX_SIZE_REACHED if the group is full and `member_id` is no member."""
    limit = table.settings.consumer_size_max
    if len(group.members) >= limit and (not member_id or member_id not in group.members):
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """The partitions that the member reports to own; None if the request has no report because
    nothing changed."""
    if request.topic_partitions is None:
        return None
    return owned_of((part.topic_id, part.partitions) for part in request.topic_partitions)


def replace_static(change: GroupChange, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member has returned with the new id `member_id`: the new member gets the state and the
    target of `old`, with epoch 0, and `old` is removed."""
    group_id = change.group.group_id
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    change.replaced[member_id] = old.member_id
    change.records += member_tombstones(group_id, old.member_id)
    target = change.group.targets.get(old.member_id) or {}
    change.records += [
        member_record(group_id, new),
        target_record(group_id, member_id, target),
        current_record(group_id, new),
    ]
    return new


def check_instance(
    member: ConsumerMember | None, member_id: str, instance_id: str
) -> ConsumerMember:
    """Return `member`, the static member of the instance id. Raises UNKNOWN_MEMBER_ID if it is
    None, FENCED_INSTANCE_ID if its id is not `member_id`."""
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    return member


def _dynamic_member(
    group: ConsumerGroup, member_id: str, epoch: int, owned: Owned | None
) -> ConsumerMember:
    if epoch == JOIN_EPOCH:
        return group.members.get(member_id) or ConsumerMember(member_id)
    member = group.member(member_id)
    _check_epoch(member, epoch, owned)
    return member


def _static_member(
    change: GroupChange,
    member_id: str,
    request: ConsumerGroupHeartbeatRequest,
    owned: Owned | None,
) -> ConsumerMember:
    instance_id = request.instance_id or ""
    known = change.group.static_member(instance_id)
    if request.member_epoch != JOIN_EPOCH:
        member = check_instance(known, member_id, instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member
    if known is None or (known.member_id == member_id and known.epoch != LEAVE_STATIC_EPOCH):
        return known or change.group.members.get(member_id) or ConsumerMember(member_id)
    if not known.uses_classic_protocol and known.epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because"
            f" the instance id is owned by member {known.member_id}.",
        )
    return replace_static(change, known, member_id)


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    if epoch > member.epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by"
            f" the group coordinator ({member.epoch}). The member must abandon all its partitions"
            " and rejoin.",
        )
    # A member that did not receive the response with its new epoch may send its previous epoch
    # again.
    repeats = epoch == member.previous_epoch and is_within(owned, member.assigned)
    if epoch < member.epoch and not repeats:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by"
            f" the group coordinator ({member.epoch}). The member must abandon all its partitions"
            " and rejoin.",
        )


def _described(
    old: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """The member with the values of the request. Values that the request leaves out do not
    change."""
    topics, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=old.assignor if request.server_assignor is None else request.server_assignor,
        topics=old.topics if topics is None else tuple(sorted(set(topics))),
        regex=old.regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _interval_ms(
    change: GroupChange, member: ConsumerMember, target_epoch: int, has_changed: bool
) -> int:
    """Milliseconds until the next heartbeat. Shorter for a member that waits for partitions of others or
    for the next target assignment, or whose assignment has just changed (docs/divergence.md)."""
    group_id = change.group.group_id
    interval_ms = change.cluster.group_config(group_id, "consumer.heartbeat.interval.ms")
    if change.epoch > target_epoch:
        return max(min(interval_ms, change.assignment_wait_ms() + LEAST_MS), LEAST_MS)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return min(interval_ms, SOON_MS)
    return min(interval_ms, SETTLING_MS) if has_changed else interval_ms


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(member.assigned.items())
        ]
    )
