"""The deadlines of streams groups: sessions, tasks that are not given up, and the delay of a new group.

Nothing happens at a deadline whose member or group no longer exists, or whose change was not committed.

Source: the timers of ``GroupMetadataManager`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import Any

from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.group.streams.configured_topology import configure
from barnabas.group.streams.leaving import fence
from barnabas.group.streams.member import StreamsMemberState
from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.group.streams.target_assignment import current_target, next_target
from barnabas.operation import Instant
from barnabas.wire.errors import KafkaError


def begin_streams_timers(table: GroupTable, group: StreamsGroup, at: Instant) -> None:
    """The group was loaded: every member gets a whole session, and the time to give up its tasks."""
    session_ms = table.cluster.group_config(group.group_id, "streams.session.timeout.ms")
    for member_id, member in group.members.items():
        key = (GroupTimer.SESSION, group.group_id, member_id)
        table.timers.schedule(key, at.now_ms + session_ms)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            key = (GroupTimer.REBALANCE, group.group_id, member_id)
            table.timers.schedule(key, at.now_ms + member.rebalance_timeout_ms, member.epoch)


def on_streams_deadline(
    table: GroupTable,
    group: StreamsGroup,
    timer: tuple[GroupTimer, str],
    payload: Any,
    at: Instant,
) -> GroupOutcome:
    """Handle a deadline that is due: `timer` is its kind and the member's id. Those that a classic group of
    its name left do nothing. `payload` of REBALANCE is the member epoch that it was set for."""
    kind, member_id = timer
    if kind is GroupTimer.STREAMS_DELAY:
        return _first_assignment(table, group, at)
    member = group.members.get(member_id)
    if member is None or kind not in (GroupTimer.SESSION, GroupTimer.REBALANCE):
        return GroupOutcome()
    if kind is GroupTimer.REBALANCE and member.epoch != payload:
        return GroupOutcome()
    return fence(table, group, member)


def _first_assignment(table: GroupTable, group: StreamsGroup, at: Instant) -> GroupOutcome:
    """A new group has waited for its members: assign its tasks. Members learn of it with their next
    heartbeat."""
    topology = group.topology
    if group.is_empty or topology is None or group.epoch <= group.target_epoch.epoch:
        return GroupOutcome()
    configured = group.configured
    if configured is None or configured.topology != topology:
        try:
            configured = configure(topology, table.cluster)
        except KafkaError:
            return GroupOutcome()  # the members' next heartbeats say so
    if configured.is_ready != (group.epochs.validated_topology == topology.epoch):
        return GroupOutcome()  # topics changed: the next heartbeat looks at them
    _, records = next_target(group, current_target(group), configured, group.epochs, at.wall_ms)
    return GroupOutcome(records)
