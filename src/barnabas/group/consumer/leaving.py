"""Removes members from a consumer group: they leave, or are fenced.

Source: ``GroupMetadataManager.consumerGroupLeave`` and ``consumerGroupFenceMembers`` of Apache Kafka
4.3; KIP-848.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from barnabas.group.consumer.change import GroupChange, schedule_assignment
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.conversion.downgrade import can_downgrade, downgrade
from barnabas.group.consumer.member import LEAVE_STATIC_EPOCH, ConsumerMember
from barnabas.group.consumer.records import (
    assignment_epoch_record,
    current_record,
    member_tombstones,
)
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.schema import Message

LEAVE_RETRY_MS = 1_000
"""The time after which a removal that the log refused is tried again, unless the member has sent a
request."""
_MEMBER_TIMERS = (
    GroupTimer.SESSION,
    GroupTimer.REBALANCE,
    GroupTimer.CLASSIC_JOIN,
    GroupTimer.CLASSIC_SYNC,
)


def leave(table: GroupTable, request: ConsumerGroupHeartbeatRequest, at: Instant) -> GroupOutcome:
    """Epoch -1: the member is gone; -2: a static member will return. Raises GROUP_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group_id, member_id, instance_id = request.group_id, request.member_id, request.instance_id
    group = table.consumer(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=request.member_epoch
    )
    if instance_id is None:
        return fence(table, group, [group.member(member_id)], at, response)
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    if request.member_epoch != LEAVE_STATIC_EPOCH:
        return fence(table, group, [member], at, response)
    away = replace(member, epoch=LEAVE_STATIC_EPOCH, revoking={})
    return GroupOutcome(records=[current_record(group_id, away)], reply=response)


def fence(
    table: GroupTable,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    at: Instant,
    reply: Message | None = None,
) -> GroupOutcome:
    """Remove members. If only members of the classic protocol are left, the group becomes a classic
    one where its policy allows that."""
    if not members:
        return GroupOutcome(reply=reply)
    leaving = {member.member_id: None for member in members}
    if can_downgrade(table, group, leaving):
        outcome = downgrade(table, group, leaving, at)
        outcome.reply = reply
        return outcome
    change = GroupChange(table, group, at, [])
    for member in members:
        change.records += member_tombstones(group.group_id, member.member_id)
    counts: dict[str, int] = {}
    for member in members:
        if member.regex:
            counts[member.regex] = counts.get(member.regex, 0) + 1
    for regex, count in counts.items():
        if group.regex_subscribers(regex) == count:
            change.drop_regex(regex)
    change.bump(change.cluster.group_hash(_topics_without(change, members)))
    if len(group.members) > len(members):
        schedule_assignment(table, group, at, change.assignment_wait_ms())
    else:  # nothing is left to assign: the next member does not wait
        change.records.append(assignment_epoch_record(group.group_id, change.epoch, 0))

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        for member in members:
            if error is ErrorCode.NONE:
                forget_timers(table, group.group_id, member.member_id)
            else:
                _try_again(table, group.group_id, member.member_id, at)
        return GroupOutcome()

    return GroupOutcome(records=change.records, reply=reply, on_settled=settled)


def _try_again(table: GroupTable, group_id: str, member_id: str, at: Instant) -> None:
    """Set a new deadline: the removal was lost, and the deadline that caused it is used up."""
    key = (GroupTimer.SESSION, group_id, member_id)
    if table.timers.pending(key) is None:
        table.timers.schedule(key, at.now_ms + LEAVE_RETRY_MS)


def _topics_without(change: GroupChange, members: Sequence[ConsumerMember]) -> list[str]:
    counts: dict[str, int] = {}
    for member in members:
        for name in member.topics:
            counts[name] = counts.get(name, 0) + 1
    present = change.group.topic_counts()
    for regex in change.regexes:
        known = change.group.regexes.get(regex)
        for name in () if known is None else known.topics:
            counts[name] = counts.get(name, 0) + 1
    return [name for name, count in present.items() if count > counts.get(name, 0)]


def forget_timers(table: GroupTable, group_id: str, member_id: str) -> None:
    """Cancel the deadlines of a member that is gone, unless it has joined again."""
    group = table.consumer(group_id)
    if group is not None and member_id in group.members:
        return
    for kind in _MEMBER_TIMERS:
        table.timers.cancel((kind, group_id, member_id))
