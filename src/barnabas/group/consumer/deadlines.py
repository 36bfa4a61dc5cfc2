"""Deadlines of consumer groups: sessions, rebalances, rejoins, and the next target assignment.

A deadline may belong to a member or a group that is gone by now, or to a change that was lost: then
nothing is done.

Source: the timers of ``GroupMetadataManager`` of Apache Kafka 4.3; KIP-848, KIP-1263.
"""

from __future__ import annotations

from typing import Any

from barnabas.group.consumer.large_assignment import assign
from barnabas.group.consumer.leaving import fence
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import Instant, Outcome

CONSUMER_TIMERS = frozenset(
    {GroupTimer.REBALANCE, GroupTimer.ASSIGNMENT, GroupTimer.CLASSIC_JOIN, GroupTimer.CLASSIC_SYNC}
)
"""Beside SESSION, which members of every kind of group have."""


def on_consumer_deadline(
    table: GroupTable, kind: GroupTimer, group_id: str, member_id: str, payload: Any, at: Instant
) -> Outcome:
    """A deadline of the group or of a member has come."""
    group = table.consumer(group_id)
    if group is None:
        return Outcome()
    if kind is GroupTimer.ASSIGNMENT:
        return assign(table, group, at)
    member = group.members.get(member_id)
    if member is None or kind in (GroupTimer.JOIN, GroupTimer.SYNC):
        return Outcome()
    if kind is GroupTimer.REBALANCE and member.epoch != payload:
        return Outcome()
    return fence(table, group, [member], at)
