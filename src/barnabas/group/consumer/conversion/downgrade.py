"""A consumer group becomes a classic group when its last member of the consumer protocol leaves.

Source: ``GroupMetadataManager.convertToClassicGroup`` and ``ClassicGroup.fromConsumerGroup`` of Apache
Kafka 4.3; KIP-848, "Migrating".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.group.classic_group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicGroupMember,
    GroupState,
)
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.change import begin_timers
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.conversion.embedded import EmbeddedError, version_of, write_assignment
from barnabas.group.consumer.member import ConsumerMember
from barnabas.group.consumer.records import group_tombstones
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.group.rebalance import prepare_rebalance
from barnabas.group.record_codec import GroupRecord, group_record
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode


def can_downgrade(table: GroupTable, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Whether the group may become a classic group when the members `without` are removed: all
    others use the classic protocol and are not too many, and the group's migration policy allows
    it."""
    left = [member for member_id, member in group.members.items() if member_id not in without]
    return (
        bool(left)
        and all(member.uses_classic_protocol for member in left)
        and any(not member.uses_classic_protocol for _, member in group.members.items())
        and table.settings.may_downgrade
        and len(left) <= table.settings.size_max
    )


def downgrade(
    table: GroupTable,
    group: ConsumerGroup,
    leaving: Collection[str],
    at: Instant,
    joining: ConsumerMember | None = None,
    records: list[GroupRecord] | None = None,
    *,
    rebalance: bool = True,
) -> GroupOutcome:
    """Convert the group to a classic group without the members `leaving`. `joining` is a static member that
    replaces one of the others; `records` already has its records. With `rebalance`, the classic group begins
    a rebalance."""
    members = [member for member_id, member in group.members.items() if member_id not in leaving]
    renamed: dict[str, str] = {}
    if joining is not None:
        before = group.static_member(joining.instance_id)
        assert before is not None, f"{joining!r} takes no member's place in {group!r}"
        renamed[before.member_id] = joining.member_id
        members = [joining if member is before else member for member in members]
    classic, assignments = _converted(group, members, table.cluster, at)
    outcome = GroupOutcome(replay=False)
    outcome.records = [
        *(records or ()),
        *group_tombstones(group, renamed),
        group_record(classic, assignments),
    ]
    # Not by replay: the record lacks a part of the classic group's state. A failed write undoes
    # this.
    table.groups.put(group.group_id, classic)
    for member_id, _ in group.members.items():
        for kind in (
            GroupTimer.SESSION,
            GroupTimer.REBALANCE,
            GroupTimer.CLASSIC_JOIN,
            GroupTimer.CLASSIC_SYNC,
        ):
            table.timers.cancel((kind, group.group_id, member_id))
    table.timers.cancel((GroupTimer.ASSIGNMENT, group.group_id, ""))
    for member in classic.members.values():
        table.keep_alive(classic, member, at)
    if rebalance:
        following = prepare_rebalance(table, classic, at)
        assert not following.decides, f"{classic!r} has members that have not rejoined"

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        if error is not ErrorCode.NONE and table.consumer(group.group_id) is group:
            begin_timers(table, group, at)
        return GroupOutcome()

    outcome.settle_by(settled)
    return outcome


def _converted(
    group: ConsumerGroup, members: list[ConsumerMember], cluster: ClusterTopics, at: Instant
) -> tuple[ClassicGroup, Mapping[str, bytes]]:
    classic = ClassicGroup(
        group.group_id,
        at.wall_ms,
        state=GroupState.STABLE,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    for member in members:
        assert member.classic is not None
        classic.add(
            ClassicGroupMember(
                member.member_id,
                member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=member.classic.protocols,
                assignment=write_assignment(member.assigned, embedded_version(member), cluster),
            )
        )
    classic.protocol_name = classic.select_protocol()
    classic.topics = classic.compute_topics()
    return classic, {m.member_id: m.assignment for m in classic.members.values()}


def embedded_version(member: ConsumerMember) -> int:
    """The version of the embedded protocol that the member speaks."""
    assert member.classic is not None
    try:
        return version_of(member.classic.protocols[0][1])
    except (EmbeddedError, IndexError):
        return 0
