"""SyncGroup of the classic protocol: the leader sends the assignment, and each member gets its
part.

Members get it only when it is committed, so that the next coordinator knows it, too.

Source: ``GroupMetadataManager.classicGroupSync*`` and ``expirePendingSync`` of Apache Kafka 4.3;
KIP-559.
"""

from __future__ import annotations

from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.group.rebalance import (
    prepare_rebalance,
    rebalance_or_complete,
    set_assignment,
    sync_refused,
    withdraw_assignment,
)
from barnabas.group.record_codec import group_record
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.sync_group_request import SyncGroupRequest
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.request import Parked


def sync_group(
    table: GroupTable, request: SyncGroupRequest, parked: Parked, at: Instant
) -> GroupOutcome:
    """Give a member its assignment, now or when the leader's is committed."""
    group = table.classic(request.group_id)
    if group is None or group.state is GroupState.EMPTY:
        return _refuse(table, parked, ErrorCode.UNKNOWN_MEMBER_ID)
    try:
        _check(group, request)
    except KafkaError as error:
        return _refuse(table, parked, error.code)
    if group.state is GroupState.PREPARING_REBALANCE:
        return _refuse(table, parked, ErrorCode.REBALANCE_IN_PROGRESS)
    member = group.members[request.member_id]
    _has_synced(table, group, request.member_id)
    if group.state is GroupState.STABLE:
        response = SyncGroupResponse(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )
        table.answer(parked, response)
        return GroupOutcome()
    superseded = sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
    table.answer_sync(member, superseded)
    member.parked_sync = parked
    if group.leader_id == request.member_id:
        return _write_assignment(table, group, request)
    return GroupOutcome()


def _write_assignment(
    table: GroupTable, group: ClassicGroup, request: SyncGroupRequest
) -> GroupOutcome:
    assignments = {part.member_id: bytes(part.assignment) for part in request.assignments}
    for member_id in group.members:
        assignments.setdefault(member_id, b"")
    generation = group.generation

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return GroupOutcome()
        if error is ErrorCode.NONE:
            set_assignment(table, group, assignments, at)
            group.move_to(GroupState.STABLE, at.wall_ms)
            table.counters.classic_rebalances += 1
            return GroupOutcome()
        withdraw_assignment(table, group, error, at)
        return rebalance_or_complete(table, group, at)

    return GroupOutcome(
        records=[group_record(group, assignments)], replay=False, on_settled=settled
    )


def on_sync_deadline(
    table: GroupTable, group_id: str, generation: int, at: Instant
) -> GroupOutcome:
    """Remove members that have not asked for their assignment; the others rebalance."""
    group = table.classic(group_id)
    if group is None or group.generation != generation or not group.pending_syncs:
        return GroupOutcome()
    if not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return GroupOutcome()
    for member_id in list(group.pending_syncs):
        group.remove(member_id)
        table.forget(group, member_id)
    return prepare_rebalance(table, group, at)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.state is GroupState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{group!r} is being unloaded")
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {group.group_id} is in generation {group.generation}",
        )
    wrong_type = request.protocol_type not in (None, group.protocol_type)
    if wrong_type or request.protocol_name not in (None, group.protocol_name):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group {group.group_id} uses {group.protocol_type}, {group.protocol_name}",
        )


def _has_synced(table: GroupTable, group: ClassicGroup, member_id: str) -> None:
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        table.timers.cancel((GroupTimer.SYNC, group.group_id, ""))


def _refuse(table: GroupTable, parked: Parked, code: ErrorCode) -> GroupOutcome:
    table.answer(parked, sync_refused(code))
    return GroupOutcome()
