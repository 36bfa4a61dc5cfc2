"""The next assignment of a member of a consumer group: first it gives up partitions, then it
receives others.

A step takes the member, the target assignment and the partitions that the member reports to own. It
returns the member one step further, or the same member if it has to wait.

States: STABLE → UNREVOKED_PARTITIONS (at its old epoch) while it has to give up partitions; →
UNRELEASED_PARTITIONS (at the target's epoch) while other members have to; → STABLE with its whole
target.

Source: ``CurrentAssignmentBuilder`` of Apache Kafka 4.3; KIP-848, "Member reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from barnabas.group.consumer.member import (
    Assigned,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
)
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Reconciling:
    """The input of a step."""

    target_epoch: int
    target: Target
    owned_among: Callable[[Uuid, Iterable[int]], Collection[int]]
    """Returns those of a topic's partitions that some member owns."""
    subscribed: Collection[Uuid]
    """Topics that the member subscribes to."""
    owned: Owned | None
    """The partitions that the member reports to own; None if it did not report them."""
    subscription_changed: bool = False


def next_assignment(member: ConsumerMember, on: Reconciling) -> ConsumerMember:
    """Make one step. Raises FENCED_MEMBER_EPOCH if a later release has written the member's
    state."""
    if member.state is MemberState.STABLE and member.epoch == on.target_epoch:
        return _drop_unsubscribed(member, on) if on.subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(on, member.revoking):
        return _drop_unsubscribed(member, on) if on.subscription_changed else member
    if member.state is MemberState.UNKNOWN and (on.owned is None or on.owned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in an unknown state. It must give up all partitions and"
            " rejoin.",
        )
    return _compute(member, on)


def _still_owns(on: Reconciling, revoking: Assigned) -> bool:
    """Whether the member owns, or may own, partitions that it has to give up."""
    if on.owned is None:
        return True
    return any(
        partition in revoking.get(topic_id, {})
        for topic_id, partitions in on.owned.items()
        for partition in partitions
    )


def _drop_unsubscribed(member: ConsumerMember, on: Reconciling) -> ConsumerMember:
    """The member gives up topics to which it no longer subscribes, and keeps its epoch."""
    dropped = {t: parts for t, parts in member.assigned.items() if t not in on.subscribed}
    if not dropped:
        return member
    assigned = {t: parts for t, parts in member.assigned.items() if t in on.subscribed}
    revoking = {t: dict(parts) for t, parts in member.revoking.items()}
    for topic_id, parts in dropped.items():
        revoking.setdefault(topic_id, {}).update(parts)
    if _still_owns(on, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.at_epoch(member.epoch, state, assigned, revoking)
    return member.at_epoch(member.epoch, member.state, assigned)


def _compute(member: ConsumerMember, on: Reconciling) -> ConsumerMember:
    kept: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    free: dict[Uuid, list[int]] = {}
    waits = False
    for topic_id in sorted({*on.target, *member.assigned}):
        wanted = on.target.get(topic_id, frozenset()) if topic_id in on.subscribed else frozenset()
        had = member.assigned.get(topic_id, {})
        own_revoking = member.revoking.get(topic_id, {})
        keep = {partition: epoch for partition, epoch in had.items() if partition in wanted}
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(had):
            revoking[topic_id] = {p: epoch for p, epoch in had.items() if p not in wanted}
        lacking = wanted - keep.keys() if keep else wanted
        # Partitions that the member itself gives up in this step are free for it.
        taken = set(on.owned_among(topic_id, lacking)).difference(own_revoking)
        waits = waits or bool(taken)
        if len(taken) < len(lacking):
            free[topic_id] = sorted(lacking - taken if taken else lacking)
    if revoking and _still_owns(on, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.at_epoch(member.epoch, state, kept, revoking)
    for topic_id, partitions in free.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, on.target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.at_epoch(on.target_epoch, state, kept)
