"""Removes members from a share group: they leave, or their sessions end.

Source: ``GroupMetadataManager.shareGroupLeave`` and ``shareGroupFenceMember`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.group.share.records import (
    assignment_epoch_record,
    epoch_record,
    member_tombstones,
)
from barnabas.group.share.share_group import ShareGroup, ShareMember
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from barnabas.wire.schema import Message

LEAVE_RETRY_MS = 1_000
"""The time after which a removal that the log refused is tried again, unless the member has sent a
request."""


def leave(table: GroupTable, request: ShareGroupHeartbeatRequest, at: Instant) -> GroupOutcome:
    """Epoch -1: the member is gone. Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID."""
    group = table.share(request.group_id)
    if group is None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group."
        )
    response = ShareGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    return _remove(table, group, group.member(request.member_id), response)


def on_session_deadline(
    table: GroupTable, group_id: str, member_id: str, at: Instant
) -> GroupOutcome:
    """Remove a member that has sent no heartbeat for its session time-out."""
    group = table.share(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return GroupOutcome()
    return _remove(table, group, member, None)


def _remove(
    table: GroupTable, group: ShareGroup, member: ShareMember, reply: Message | None
) -> GroupOutcome:
    group_id, member_id = group.group_id, member.member_id
    counts = group.topic_counts()
    for name in member.topics:
        counts[name] -= 1
    found = table.cluster.group_hash(name for name, count in counts.items() if count)
    table.counters.share_rebalances += 1
    key = (GroupTimer.SESSION, group_id, member_id)

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        if error is ErrorCode.NONE:
            table.timers.cancel(key)
        elif table.timers.pending(key) is None:
            table.timers.schedule(key, at.now_ms + LEAVE_RETRY_MS)
        return GroupOutcome()

    epoch = group.epoch + 1
    records = [*member_tombstones(group_id, member_id), epoch_record(group_id, epoch, found)]
    if len(group.members) == 1:  # nothing is left to assign: the next member does not wait
        records.append(assignment_epoch_record(group_id, epoch, 0))
    return GroupOutcome(records=records, reply=reply, on_settled=settled)
