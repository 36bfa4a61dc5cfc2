"""Members that leave a streams group, or are removed from it.

Source: ``GroupMetadataManager.streamsGroupLeave`` and ``streamsGroupFenceMember`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.group.streams.joining import present_member
from barnabas.group.streams.member import LEAVE_STATIC_EPOCH, StreamsMember
from barnabas.group.streams.records import (
    current_record,
    epochs_record,
    member_tombstones,
    target_epoch_record,
)
from barnabas.group.streams.streams_group import StreamsGroup, TargetEpoch
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from barnabas.wire.schema import Message

LEAVE_RETRY_MS = 1_000
"""A member whose removal the log refused is removed then, unless it is heard of."""
MEMBER_TIMERS = (GroupTimer.SESSION, GroupTimer.REBALANCE)


def leave(table: GroupTable, request: StreamsGroupHeartbeatRequest) -> GroupOutcome:
    """Epoch -1: the member is gone; -2: a static member will return. Raises GROUP_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group = table.streams(request.group_id)
    if group is None:
        known = request.group_id in table.groups
        what = "is not a streams group" if known else "not found"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
    reply = StreamsGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, status=[]
    )
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = present_member(group, request.member_id, request.instance_id)
    if request.shutdown_application and group.shutdown_asked_by is None:
        group.shutdown_asked_by = request.member_id
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        return GroupOutcome([current_record(group.group_id, member.away())], reply)
    return fence(table, group, member, reply)


def fence(
    table: GroupTable, group: StreamsGroup, member: StreamsMember, reply: Message | None = None
) -> GroupOutcome:
    """Remove a member. Those that are left are assigned its tasks with their next heartbeat."""
    group_id, member_id = group.group_id, member.member_id
    epoch = group.epoch + 1
    records = [
        *member_tombstones(group_id, member_id),
        epochs_record(group_id, group.epochs._replace(epoch=epoch)),
    ]
    if len(group.members) == 1:
        records.append(target_epoch_record(group_id, TargetEpoch(epoch)))

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        known = table.streams(group_id)
        if error is not ErrorCode.NONE:
            _try_again(table, group_id, member_id, at)
        elif known is None or member_id not in known.members:
            for kind in MEMBER_TIMERS:
                table.timers.cancel((kind, group_id, member_id))
        return GroupOutcome()

    return GroupOutcome(records, reply, settled)


def _try_again(table: GroupTable, group_id: str, member_id: str, at: Instant) -> None:
    """The removal was lost, and the deadline that asked for it is used up."""
    key = (GroupTimer.SESSION, group_id, member_id)
    if table.timers.pending(key) is None:
        table.timers.schedule(key, at.now_ms + LEAVE_RETRY_MS)
