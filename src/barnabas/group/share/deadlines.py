"""Deadlines of share groups: sessions of members, and initializations under way.

Source: ``GroupMetadataManager.scheduleShareGroupSessionTimeout`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.group.share.leaving import on_session_deadline
from barnabas.group.share.share_group import ShareGroup
from barnabas.operation import Instant


def begin_share_timers(table: GroupTable, group: ShareGroup, at: Instant) -> None:
    """Begin a whole session for every member of a loaded group. An initialization that an earlier
    coordinator began may still be under way, so it is not requested again at once."""
    group.initializing_since.update(dict.fromkeys(group.state_topics.initializing, at.now_ms))
    session_ms = table.cluster.group_config(group.group_id, "share.session.timeout.ms")
    for member_id, _ in group.members.items():
        key = (GroupTimer.SESSION, group.group_id, member_id)
        table.timers.schedule(key, at.now_ms + session_ms)


def on_share_deadline(
    table: GroupTable, kind: GroupTimer, group_id: str, member_id: str, at: Instant
) -> GroupOutcome:
    """Handle a deadline that is due. Deadlines that are left over from a classic group of that name
    do nothing."""
    if kind is not GroupTimer.SESSION:
        return GroupOutcome()
    return on_session_deadline(table, group_id, member_id, at)
