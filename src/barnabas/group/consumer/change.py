"""One operation on a consumer group: the records that it decides, and the state that it decided so
far.

The group itself changes when the records are replayed; until then this object holds the new state.
The steps come in the order of the methods: describe the member, resolve regular expressions, look
at the topics' metadata, compute the target assignment, reconcile the member.

Source: the parts that ``consumerGroupHeartbeat`` and ``classicGroupJoinToConsumerGroup`` of
``GroupMetadataManager`` of Apache Kafka 4.3 share; KIP-1263.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.assignors import finish
from barnabas.group.consumer.assignors.spec import Steps, Targets
from barnabas.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.group.consumer.current_assignment import Reconciling, next_assignment
from barnabas.group.consumer.member import ConsumerMember, MemberState, Owned, Target
from barnabas.group.consumer.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    regex_record,
    regex_tombstone,
    subscription_tombstone,
)
from barnabas.group.consumer.target_assignment import (
    assignment_of,
    preferred_assignor,
    subscribed_ids,
    target_records,
)
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import Caller
from barnabas.group.record_codec import GroupRecord
from barnabas.operation import Instant
from barnabas.wire.regular_expressions import NameExpression

REGEX_REFRESH_MIN_MS = 10_000
"""The shortest time between two resolutions of regular expressions: topics that are created shortly
after each other cause one rebalance."""


ASSIGNED_AT_ONCE_MAX = 8_000
"""The largest target assignment that is computed in the turn in which it is needed."""


class GroupChange:
    """The decisions of one operation on one group."""

    __slots__ = (
        "at",
        "cluster",
        "epoch",
        "group",
        "metadata_hash",
        "records",
        "regexes",
        "replaced",
        "table",
    )

    def __init__(
        self, table: GroupTable, group: ConsumerGroup, at: Instant, records: list[GroupRecord]
    ) -> None:
        """`records` come before the records of this operation."""
        self.table = table
        self.group = group
        self.at = at
        self.records = records
        self.cluster: ClusterTopics = table.cluster
        self.epoch = group.epoch
        self.metadata_hash = group.metadata_hash
        self.regexes: dict[str, ResolvedRegex | None] = {}
        """The expressions that this operation has resolved or dropped."""
        self.replaced: dict[str, str] = {}
        """Static members that returned: new id → former id."""

    # The member's description

    def describe(self, old: ConsumerMember, new: ConsumerMember, *, is_new: bool) -> bool:
        """Write the member's record if it changed. Returns whether its topics changed."""
        if old != new or is_new:
            self.records.append(member_record(self.group.group_id, new))
        return old.topics != new.topics

    def changes_assignor(self, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Whether the group has another assignor once `new` has replaced `old`."""
        if old.assignor == new.assignor:
            return False
        members = {member.member_id: member for _, member in self.group.members.items()}
        default = self.table.settings.assignor_names()[0]
        before = preferred_assignor(members, default)
        members.pop(self.replaced.get(new.member_id, new.member_id), None)
        members[new.member_id] = new
        return preferred_assignor(members, default) != before

    def resolve_regexes(self, old: ConsumerMember, new: ConsumerMember, caller: Caller) -> bool:
        """Resolve the member's regular expression, and the group's stale ones, against the topics
        that `caller` may describe. Returns whether the group's topics changed. Raises
        INVALID_REGULAR_EXPRESSION."""
        group = self.group
        changed = old.regex != new.regex
        if changed:
            if new.regex and not group.regex_subscribers(new.regex):
                NameExpression(new.regex, "SubscribedTopicRegex")
            if old.regex and group.regex_subscribers(old.regex) == 1:
                self.drop_regex(old.regex)
        subscribed = [r for r in group.subscribed_regexes() if r not in self.regexes]
        if new.regex and new.regex not in subscribed:
            subscribed.append(new.regex)
        stale = self._stale(subscribed)
        if stale:
            names, may_describe = self.cluster.names(), caller.may_describe
            for regex in stale:
                known = group.regexes.get(regex)
                topics = NameExpression(regex, "SubscribedTopicRegex").matching(names)
                if may_describe is not None:
                    topics = tuple(filter(may_describe, topics))
                found = ResolvedRegex(topics, self.cluster.version, self.at.wall_ms)
                self.regexes[regex] = found
                self.records.append(regex_record(group.group_id, regex, found))
                changed = changed or known is None or known.topics != found.topics
        return changed

    def drop_regex(self, regex: str) -> None:
        """Drop the expression: no member subscribes by it any more."""
        self.regexes[regex] = None
        self.records.append(regex_tombstone(self.group.group_id, regex))

    def _stale(self, subscribed: list[str]) -> list[str]:
        """The expressions to resolve: those that are not resolved, and all expressions after new
        topics or a long time."""
        known = [self.group.regexes.get(regex) for regex in subscribed]
        found = [resolved for resolved in known if resolved is not None]
        last_ms = max((resolved.resolved_ms for resolved in found), default=0)
        since_ms = self.at.wall_ms - last_ms
        if found and since_ms > REGEX_REFRESH_MIN_MS:
            version = max(resolved.version for resolved in found)
            interval_ms = self.table.settings.consumer_regex_refresh_interval_ms
            if version < self.cluster.new_topics_version or since_ms > interval_ms:
                return subscribed
        return [regex for regex, resolved in zip(subscribed, known) if resolved is None]

    # The topics

    def refresh(self, old: ConsumerMember | None, new: ConsumerMember | None, bump: bool) -> None:
        """Begin a new epoch if `bump` says so, or if the topics' metadata differ."""
        group = self.group
        if not bump and not group.wants_refresh(self.at.now_ms):
            return
        found = self.cluster.group_hash(self.topics_after(old, new))
        if bump or found != group.metadata_hash:
            self.bump(found)
        group.refreshed(math.inf, self.epoch)
        if group.subscription_record:
            self.records.append(subscription_tombstone(group.group_id))

    def bump(self, metadata_hash: int) -> None:
        self.epoch += 1
        self.table.counters.consumer_rebalances += 1
        self.metadata_hash = metadata_hash
        self.records.append(epoch_record(self.group.group_id, self.epoch, metadata_hash))

    def topics_after(self, old: ConsumerMember | None, new: ConsumerMember | None) -> list[str]:
        """The names to which the group subscribes after `new` has replaced `old`."""
        delta: dict[str, int] = {}

        def count(names: Iterable[str], by: int) -> None:
            for name in names:
                delta[name] = delta.get(name, 0) + by

        count(() if old is None else old.topics, -1)
        count(() if new is None else new.topics, 1)
        for regex, found in self.regexes.items():
            known = self.group.regexes.get(regex)
            count(() if known is None else known.topics, -1)
            count(() if found is None else found.topics, 1)
        counts = self.group.topic_counts()
        for name, by in delta.items():
            counts[name] = counts.get(name, 0) + by
        return [name for name, number in counts.items() if number > 0]

    # The target assignment

    def retarget(self, new: ConsumerMember | None) -> tuple[int, Target]:
        """The epoch of the target assignment, and the member's part of it. If the group has a new
        epoch, a new assignment is computed, but not sooner than ``consumer.assignment.interval.ms``
        after the last one. A large one is computed in steps (`large_assignment`)."""
        group = self.group
        if self.epoch <= group.assignment_epoch or self._must_wait():
            return group.assignment_epoch, self.present_target(new)
        work, steps = self.assignment_steps(new)
        if work > ASSIGNED_AT_ONCE_MAX:
            schedule_assignment(self.table, group, self.at, 0)
            return max(group.assignment_epoch, self._begin_empty()), self.present_target(new)
        targets = finish(steps)
        self.write_targets(targets)
        return self.epoch, targets[new.member_id] if new is not None else {}

    def _begin_empty(self) -> int:
        """Write a first epoch that assigns nothing, if the first assignment is large, since a member that
        has joined has an epoch above 0. Returns that epoch; 0 if the group has had others."""
        first = self.epoch
        if self.group.assignment_epoch > 0:
            return 0
        self.records.append(assignment_epoch_record(self.group.group_id, first, 0))
        self.bump(self.metadata_hash)
        return first

    def assignment_steps(self, new: ConsumerMember | None) -> tuple[int, Steps]:
        """The size of the next target assignment, and the steps that compute it."""
        group = self.group
        members = {member.member_id: member for _, member in group.members.items()}
        previous = dict(group.targets.items())
        if new is not None:
            before = self.replaced.get(new.member_id)
            if before is not None:
                members.pop(before, None)
                previous[new.member_id] = previous.pop(before, {})
            members[new.member_id] = new
        default = self.table.settings.assignor_names()[0]
        return assignment_of(members, previous, self.regexes_after(), self.cluster, default)

    def write_targets(self, targets: Targets) -> None:
        """Make `targets` the target assignment of the group's epoch."""
        assert self.epoch > self.group.assignment_epoch, f"{self.group!r} is assigned already"
        self.records += target_records(self.group, targets, self.epoch, self.at.wall_ms)

    def _must_wait(self) -> bool:
        wait_ms = self.assignment_wait_ms()
        if wait_ms > 0:
            schedule_assignment(self.table, self.group, self.at, wait_ms)
        return wait_ms > 0

    def assignment_wait_ms(self) -> int:
        """The time until the next target assignment may be computed."""
        group = self.group
        interval_ms = self.cluster.group_config(group.group_id, "consumer.assignment.interval.ms")
        since_ms = self.at.wall_ms - group.assigned_wall_ms
        return interval_ms - since_ms if 0 <= since_ms < interval_ms else 0

    def present_target(self, new: ConsumerMember | None) -> Target:
        """The partitions of the member in the last target assignment."""
        if new is None:
            return {}
        target = self.group.targets.get(new.member_id)
        if target is None and new.member_id in self.replaced:
            target = self.group.targets.get(self.replaced[new.member_id])
        return target or {}

    def regexes_after(self) -> dict[str, ResolvedRegex]:
        regexes: dict[str, ResolvedRegex] = dict(self.group.regexes.items())
        for regex, found in self.regexes.items():
            if found is None:
                regexes.pop(regex, None)
            else:
                regexes[regex] = found
        return regexes

    # The member's next assignment

    def reconcile(
        self,
        member: ConsumerMember,
        target: tuple[int, Target],
        owned: Owned | None,
        *,
        changed: bool,
    ) -> ConsumerMember:
        """The member after the next step of its reconciliation. Its record is written if its state
        changed."""
        target_epoch, partitions = target
        if not changed and member.is_reconciled_to(target_epoch):
            return member
        found = next_assignment(
            member,
            Reconciling(
                target_epoch,
                partitions,
                self.group.owners.among,
                subscribed_ids(member, self.regexes_after(), self.cluster),
                owned,
                changed,
            ),
        )
        if found != member:
            self._check_owners(member, found)
            self.records.append(current_record(self.group.group_id, found))
            if not found.uses_classic_protocol:
                follow_rebalance(self.table, self.group.group_id, found, self.at)
        return found

    def _check_owners(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Check that no partition that the member receives has another owner."""
        for topic_id, partitions in new.assigned.items():
            had = {**old.assigned.get(topic_id, {}), **old.revoking.get(topic_id, {})}
            come = partitions.keys() - had.keys() if had else partitions.keys()
            if come:
                taken = self.group.owners.among(topic_id, come)
                assert not taken, f"{self.group!r}: {new.member_id} gets what others own: {taken}"


def schedule_assignment(
    table: GroupTable, group: ConsumerGroup, at: Instant, wait_ms: float
) -> None:
    """Set the deadline at which the target assignment is computed, unless that happens before."""
    key = (GroupTimer.ASSIGNMENT, group.group_id, "")
    if table.timers.pending(key) is None:
        table.timers.schedule(key, at.now_ms + wait_ms)


def follow_rebalance(table: GroupTable, group_id: str, member: ConsumerMember, at: Instant) -> None:
    """Give a member that has to give up partitions its rebalance time-out."""
    key = (GroupTimer.REBALANCE, group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        table.timers.schedule(key, at.now_ms + member.rebalance_timeout_ms, member.epoch)
    else:
        table.timers.cancel(key)


def begin_timers(table: GroupTable, group: ConsumerGroup, at: Instant) -> None:
    """Begin a whole session for every member: the group was loaded, or has become a consumer
    group."""
    group_id = group.group_id
    session_ms = table.cluster.group_config(group_id, "consumer.session.timeout.ms")
    for member_id, member in group.members.items():
        classic = member.classic
        lasts_ms = session_ms if classic is None else classic.session_timeout_ms
        table.timers.schedule((GroupTimer.SESSION, group_id, member_id), at.now_ms + lasts_ms)
        if classic is None:
            follow_rebalance(table, group_id, member, at)
        elif not member.is_reconciled_to(group.epoch):
            key = (GroupTimer.CLASSIC_JOIN, group_id, member_id)
            table.timers.schedule(key, at.now_ms + member.rebalance_timeout_ms)
    if not group.is_empty and group.epoch > group.assignment_epoch:
        wait_ms = GroupChange(table, group, at, []).assignment_wait_ms()
        schedule_assignment(table, group, at, wait_ms)
