"""Membership of classic groups: heartbeats, leaving, and sessions that end.

Source: ``GroupMetadataManager.classicGroupHeartbeat``, ``classicGroupLeave`` and
``expireClassicGroupMemberHeartbeat`` of Apache Kafka 4.3; KIP-345 (leaving by instance id), KIP-800
(a reason for leaving).
"""

from __future__ import annotations

from barnabas.group.classic_group import ClassicGroup, ClassicGroupMember, GroupState
from barnabas.group.group_table import GroupTable
from barnabas.group.outcome import GroupOutcome
from barnabas.group.rebalance import (
    complete_join,
    join_refused,
    maybe_complete_join,
    rebalance_or_complete,
    sync_refused,
)
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.heartbeat_response import HeartbeatResponse
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.leave_group_response import LeaveGroupResponse, MemberResponse


def heartbeat(table: GroupTable, request: HeartbeatRequest, at: Instant) -> GroupOutcome:
    """Extend the member's session. The answer says whether it has to rejoin. Raises
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    group = _group(table, request.group_id)
    if group.state is GroupState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{group!r} is being unloaded")
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {group.group_id} is in generation {group.generation}",
        )
    if group.state is GroupState.EMPTY:
        return GroupOutcome(reply=HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    table.keep_alive(group, group.members[request.member_id], at)
    preparing = group.state is GroupState.PREPARING_REBALANCE
    code = ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
    return GroupOutcome(reply=HeartbeatResponse(error_code=code))


def leave_group(table: GroupTable, request: LeaveGroupRequest, at: Instant) -> GroupOutcome:
    """Remove members by id, or by instance id if they are static; each gets its own answer. Raises
    UNKNOWN_MEMBER_ID if there is no such group."""
    group = _group(table, request.group_id)
    if group.state is GroupState.DEAD:
        response = LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return GroupOutcome(reply=response)
    answers = []
    any_left = False
    for identity in request.members:
        code = _leave_one(table, group, identity)
        any_left = any_left or code is ErrorCode.NONE
        answers.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=code,
            )
        )
    outcome = GroupOutcome()
    if any_left and group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        outcome = rebalance_or_complete(table, group, at)
    elif any_left and group.state is GroupState.PREPARING_REBALANCE:
        outcome = maybe_complete_join(table, group, at)
    outcome.reply = LeaveGroupResponse(members=answers)
    return outcome


def on_session_deadline(
    table: GroupTable, group_id: str, member_id: str, at: Instant
) -> GroupOutcome:
    """Remove a member that has sent no request for its session time-out."""
    group = table.classic(group_id)
    if group is None or group.state is GroupState.DEAD:
        return GroupOutcome()
    if member_id in group.pending_joins:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            return complete_join(table, group, at)
        return GroupOutcome()
    member = group.members.get(member_id)
    if member is None or member.has_satisfied_heartbeat:
        return GroupOutcome()
    _remove(table, group, member)
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        return rebalance_or_complete(table, group, at)
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        return complete_join(table, group, at)
    return GroupOutcome()


def _leave_one(table: GroupTable, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        known = group.static_members.get(instance_id) if instance_id is not None else None
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        _remove(table, group, group.members[known])
        return ErrorCode.NONE
    if member_id in group.pending_joins:
        group.remove(member_id)
        table.forget(group, member_id)
        return ErrorCode.NONE
    try:
        group.check_member(member_id, instance_id)
    except KafkaError as error:
        return error.code
    _remove(table, group, group.members[member_id])
    return ErrorCode.NONE


def _remove(table: GroupTable, group: ClassicGroup, member: ClassicGroupMember) -> None:
    table.forget(group, member.member_id)
    table.answer_join(member, join_refused(ErrorCode.UNKNOWN_MEMBER_ID))
    # Kafka leaves it unanswered; here that would hold up later requests on its connection.
    table.answer_sync(member, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)


def _group(table: GroupTable, group_id: str) -> ClassicGroup:
    group = table.classic(group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
    return group
