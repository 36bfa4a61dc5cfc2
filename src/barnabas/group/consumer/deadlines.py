"""Deadlines of consumer groups: sessions, rebalances, rejoins, and the next target assignment.

A deadline does nothing if its member or group no longer exists, or if its change was not committed.

Source: the timers of ``GroupMetadataManager`` of Apache Kafka 4.3; KIP-848, KIP-1263.
"""

from __future__ import annotations

from typing import Any

from barnabas.group.consumer.large_assignment import assign
from barnabas.group.consumer.leaving import fence
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.operation import Instant

CONSUMER_TIMERS = frozenset(
    {GroupTimer.REBALANCE, GroupTimer.ASSIGNMENT, GroupTimer.CLASSIC_JOIN, GroupTimer.CLASSIC_SYNC}
)
"""Kinds of deadlines that only consumer groups have. SESSION is not among them: classic groups have it,
too."""


def on_consumer_deadline(
    table: GroupTable, kind: GroupTimer, group_id: str, member_id: str, payload: Any, at: Instant
) -> GroupOutcome:
    """Handle a deadline that is due. ASSIGNMENT computes the next target assignment; JOIN and SYNC
    are left over from a classic group and do nothing; the others remove the member. The `payload`
    of REBALANCE is the member epoch for which the deadline was set."""
    group = table.consumer(group_id)
    if group is None:
        return GroupOutcome()
    if kind is GroupTimer.ASSIGNMENT:
        return assign(table, group, at)
    member = group.members.get(member_id)
    if member is None or kind in (GroupTimer.JOIN, GroupTimer.SYNC):
        return GroupOutcome()
    if kind is GroupTimer.REBALANCE and member.epoch != payload:
        return GroupOutcome()
    return fence(table, group, [member], at)
