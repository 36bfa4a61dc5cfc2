"""The rebalance of a classic group: members join until a deadline, then the next generation begins.

A function here may change the group's state, answer waiting requests and set deadlines. The outcome
that it returns has the records to write.

Source: ``GroupMetadataManager.prepareRebalance`` and ``completeClassicGroupJoin`` of Apache Kafka
4.3; KIP-134.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.group.classic_group import (
    VALID_PREVIOUS,
    ClassicGroup,
    GroupState,
)
from barnabas.group.group_table import GroupTable, GroupTimer, InitialDelay
from barnabas.group.outcome import GroupOutcome
from barnabas.group.record_codec import group_record
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.messages.sync_group_response import SyncGroupResponse

FIRST_JOIN_MS_MIN = 10
"""A new group waits at least this long after each new member, even if
``group.initial.rebalance.delay.ms`` is 0, so that members that start together share the first
generation. Apache Kafka's timer has a similar delay."""
REJOIN_WAIT_MS_MIN = 1_000
"""If no member has rejoined, the group waits again for at least this long, whatever its members'
time-outs."""


def rebalance_or_complete(table: GroupTable, group: ClassicGroup, at: Instant) -> GroupOutcome:
    """Begin a rebalance if none is in progress; else complete it if all members have joined."""
    if group.state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]:
        return prepare_rebalance(table, group, at)
    return maybe_complete_join(table, group, at)


def prepare_rebalance(table: GroupTable, group: ClassicGroup, at: Instant) -> GroupOutcome:
    """Begin a rebalance, in which all members must rejoin. An empty group first waits for more members."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        withdraw_assignment(table, group, ErrorCode.REBALANCE_IN_PROGRESS, at)
    group.pending_syncs.clear()
    table.timers.cancel((GroupTimer.SYNC, group.group_id, ""))
    is_initial = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, at.wall_ms)
    if is_initial:
        delay_ms = _initial_delay_ms(table)
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _wait(table, group, at, delay_ms, InitialDelay(delay_ms, remaining_ms))
        return GroupOutcome()
    if group.all_joined:
        return complete_join(table, group, at)
    _wait(table, group, at, group.rebalance_timeout_ms)
    return GroupOutcome()


def _initial_delay_ms(table: GroupTable) -> int:
    return max(table.settings.initial_rebalance_delay_ms, FIRST_JOIN_MS_MIN)


def on_join_deadline(
    table: GroupTable, group_id: str, initial: InitialDelay | None, at: Instant
) -> GroupOutcome:
    """The deadline to join has passed: complete the rebalance. A new group waits again if a member has joined
    since the last wait began and its rebalance time-out is not used up."""
    group = table.classic(group_id)
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        # The deadline belongs to an earlier group of this name, whose records were lost.
        return GroupOutcome()
    if initial is not None and group.new_member_added and initial.remaining_ms:
        group.new_member_added = False
        delay_ms = min(_initial_delay_ms(table), initial.remaining_ms)
        remaining_ms = max(initial.remaining_ms - initial.delay_ms, 0)
        _wait(table, group, at, delay_ms, InitialDelay(delay_ms, remaining_ms))
        return GroupOutcome()
    return complete_join(table, group, at)


def maybe_complete_join(table: GroupTable, group: ClassicGroup, at: Instant) -> GroupOutcome:
    """Complete the rebalance if all members have joined and the group is not in its initial delay."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return GroupOutcome()
    if group.previous_state is GroupState.EMPTY or not group.all_joined:
        return GroupOutcome()
    return complete_join(table, group, at)


def complete_join(table: GroupTable, group: ClassicGroup, at: Instant) -> GroupOutcome:
    """Begin the next generation with the members that rejoined. Other dynamic members are removed; static
    members stay. If members are left and none of them rejoined, the group waits again."""
    table.timers.cancel((GroupTimer.JOIN, group.group_id, ""))
    absent = [m for m in group.members.values() if m.parked_join is None and not m.is_static]
    for member in absent:
        group.remove(member.member_id)
        table.forget(group, member.member_id)
    if group.state is GroupState.DEAD:
        return GroupOutcome()
    if not group.elect_joined_leader() and group.members:
        _wait(table, group, at, max(group.rebalance_timeout_ms, REJOIN_WAIT_MS_MIN))
        return GroupOutcome()
    group.begin_generation(at.wall_ms)
    if group.state is GroupState.EMPTY:
        return GroupOutcome(records=[group_record(group, {})], replay=False)
    for member in group.members.values():
        is_leader = member.member_id == group.leader_id
        table.answer_join(member, joined(group, member.member_id, with_members=is_leader))
        table.keep_alive(group, member, at)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    key = (GroupTimer.SYNC, group.group_id, "")
    table.timers.schedule(key, at.now_ms + group.rebalance_timeout_ms, group.generation)
    return GroupOutcome()


def joined(
    group: ClassicGroup,
    member_id: str,
    *,
    with_members: bool,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The JoinGroup answer to a member of the present generation."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.join_members() if with_members else [],
    )


def join_refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The JoinGroup answer to a member that may not join."""
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """The SyncGroup answer to a member that gets no assignment."""
    return SyncGroupResponse(error_code=code)


def withdraw_assignment(
    table: GroupTable, group: ClassicGroup, error: ErrorCode, at: Instant
) -> None:
    """End this generation without an assignment: answer waiting SyncGroup requests with `error`."""
    for member in group.members.values():
        member.assignment = b""
    _propagate(table, group, error, at)


def set_assignment(
    table: GroupTable, group: ClassicGroup, assignments: Mapping[str, bytes], at: Instant
) -> None:
    """Answer waiting SyncGroup requests with the assignment, which is committed."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    _propagate(table, group, ErrorCode.NONE, at)


def _propagate(table: GroupTable, group: ClassicGroup, error: ErrorCode, at: Instant) -> None:
    good = error is ErrorCode.NONE
    for member in group.members.values():
        response = SyncGroupResponse(
            error_code=error,
            protocol_type=group.protocol_type if good else None,
            protocol_name=group.protocol_name if good else None,
            assignment=member.assignment,
        )
        if table.answer_sync(member, response):
            table.keep_alive(group, member, at)


def _wait(
    table: GroupTable,
    group: ClassicGroup,
    at: Instant,
    delay_ms: int,
    initial: InitialDelay | None = None,
) -> None:
    table.timers.schedule((GroupTimer.JOIN, group.group_id, ""), at.now_ms + delay_ms, initial)
