"""ShareGroupHeartbeat: a member joins, names the topics that it subscribes to, and receives its
assignment.

Source: ``GroupMetadataManager.shareGroupHeartbeat`` of Apache Kafka 4.4; KIP-932.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.record_codec import GroupRecord
from barnabas.group.share.leaving import leave
from barnabas.group.share.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    state_topics_record,
    target_record,
)
from barnabas.group.share.share_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareGroup,
    ShareMember,
    Target,
    detached,
)
from barnabas.group.share.simple import assign_simply
from barnabas.group.share.state_topics import (
    Offsets,
    lacks_assignment,
    missing_of,
    with_initializing,
)
from barnabas.operation import Instant
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.wire.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

SOON_MS = 500
"""Longest heartbeat interval, in ms, of a member whose partitions are being initialized."""
LEAST_MS = 50
"""Shortest heartbeat interval, in ms, of a member that waits for the next target assignment."""
MEMBER_ID_CHARACTERS_MAX = 36
CHOSEN_BY_LEADER = -1
"""The start offset of a state for which the partition's leader chooses one by
``share.auto.offset.reset``."""
Settled = Callable[[ErrorCode, Instant], GroupOutcome]


class Initialization(NamedTuple):
    """The partitions to initialize once the records of the outcome are committed."""

    group_id: str
    state_epoch: int
    offsets: Offsets


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST."""
    if not 0 < len(request.member_id) <= MEMBER_ID_CHARACTERS_MAX:
        raise _invalid("Invalid member id in the request.")
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def heartbeat(
    table: GroupTable, request: ShareGroupHeartbeatRequest, caller: Caller, at: Instant
) -> tuple[GroupOutcome, Initialization | None]:
    """Handle one heartbeat. Raises ``KafkaError`` if the group, the member or its epoch is
    wrong."""
    if request.member_epoch < JOIN_EPOCH:
        return leave(table, request, at), None
    group = group_to_join(table, request.group_id, joins=request.member_epoch == JOIN_EPOCH)
    old = _member(table, group, request)
    new = _described(old, request, caller)
    beat = _Beat(table, group, new, at)
    changed = old.topics != new.topics
    if old != new or old.member_id not in group.members:
        beat.records.append(member_record(group.group_id, new))
    changed = beat.refresh(old, changed)
    target = beat.retarget()
    new = beat.reconcile(target, changed)
    missing = beat.initialize()
    session_ms = table.cluster.group_config(group.group_id, "share.session.timeout.ms")
    key = (GroupTimer.SESSION, group.group_id, new.member_id)
    table.timers.schedule(key, at.now_ms + session_ms)
    response = ShareGroupHeartbeatResponse(
        member_id=new.member_id,
        member_epoch=new.epoch,
        heartbeat_interval_ms=beat.interval_ms(target[0], missing is not None),
    )
    is_full = request.subscribed_topic_names is not None
    if request.member_epoch == JOIN_EPOCH or is_full or new.assigned != old.assigned:
        response.assignment = _assignment(new)
    settled = None if missing is None else note_asked(table, missing, at)
    return GroupOutcome(beat.records, response, settled), missing


def note_asked(table: GroupTable, asked: Initialization, at: Instant) -> Settled:
    """Remember when the share coordinator was asked, once the record of that is committed."""

    def settled(error: ErrorCode, settled_at: Instant) -> GroupOutcome:
        group = table.share(asked.group_id)
        if group is not None and error is ErrorCode.NONE:
            group.initializing_since.update(dict.fromkeys(asked.offsets, at.now_ms))
        return GroupOutcome()

    return settled


def group_to_join(table: GroupTable, group_id: str, *, joins: bool) -> ShareGroup:
    """The share group. If a member joins and there is none, it is a new one that is in no table.
    Raises GROUP_ID_NOT_FOUND."""
    group = table.share(group_id)
    if group is not None:
        return group
    if group_id in table.groups:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if not joins:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    return detached(group_id)


def _member(
    table: GroupTable, group: ShareGroup, request: ShareGroupHeartbeatRequest
) -> ShareMember:
    member_id, epoch = request.member_id, request.member_epoch
    limit = table.settings.share_size_max
    if len(group.members) >= limit and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {limit} members.",
        )
    if epoch == JOIN_EPOCH:
        return group.members.get(member_id) or ShareMember(member_id)
    member = group.member(member_id)
    if epoch > member.epoch or (epoch < member.epoch and epoch != member.previous_epoch):
        side = "greater" if epoch > member.epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {side} member epoch ({epoch}) than the one known by the"
            f" group coordinator ({member.epoch}). The member must abandon all its partitions and"
            " rejoin.",
        )
    return member


def _described(
    old: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller
) -> ShareMember:
    """The member with the values of the request. Values that the request leaves out do not
    change."""
    topics = request.subscribed_topic_names
    return replace(
        old,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        topics=old.topics if topics is None else tuple(sorted(set(topics))),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


class _Beat:
    """The decisions of one heartbeat. The group itself changes when the records are replayed."""

    def __init__(
        self, table: GroupTable, group: ShareGroup, member: ShareMember, at: Instant
    ) -> None:
        self.table = table
        self.group = group
        self.member = member
        self.at = at
        self.cluster = table.cluster
        self.epoch = group.epoch
        self.records: list[GroupRecord] = []
        self.names = set(group.topics)
        """The topics that the group subscribes to after this heartbeat."""

    def refresh(self, old: ShareMember, changed: bool) -> bool:
        """Begin a new epoch if the member's topics or the topics' metadata changed, or if
        initialized partitions are not assigned. Returns whether it did."""
        group = self.group
        bump = changed
        if group.assignment_epoch >= group.epoch:
            bump = bump or lacks_assignment(group, self.cluster)
        if not bump and not group.wants_refresh(self.at.now_ms):
            return False
        counts = group.topic_counts()
        if old.member_id in group.members:
            for name in old.topics:
                counts[name] = counts.get(name, 1) - 1
        for name in self.member.topics:
            counts[name] = counts.get(name, 0) + 1
        self.names = {name for name, count in counts.items() if count > 0}
        found = self.cluster.group_hash(self.names)
        bump = bump or found != group.metadata_hash
        if bump:
            self.epoch += 1
            self.table.counters.share_rebalances += 1
            self.records.append(epoch_record(group.group_id, self.epoch, found))
        group.refreshed(math.inf, self.epoch)
        return bump

    def retarget(self) -> tuple[int, Target]:
        """The epoch of the target assignment, and the member's part of it. If the group has a new
        epoch, a new assignment is computed, but not sooner than ``share.assignment.interval.ms``
        after the last one."""
        group, member = self.group, self.member
        if self.epoch <= group.assignment_epoch or self.assignment_wait_ms() > 0:
            return group.assignment_epoch, group.targets.get(member.member_id) or {}
        members = dict(group.members.items())
        members[member.member_id] = member
        targets = assign_simply(
            {member_id: self._topic_ids(known) for member_id, known in members.items()},
            {t: topic.partitions for t, topic in group.state_topics.initialized.items()},
            dict(group.targets.items()),
        )
        self.records += [
            target_record(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if group.targets.get(member_id) != target
        ]
        self.records.append(assignment_epoch_record(group.group_id, self.epoch, self.at.wall_ms))
        return self.epoch, targets[member.member_id]

    def assignment_wait_ms(self) -> int:
        """The time until the next target assignment may be computed."""
        group = self.group
        interval_ms = self.cluster.group_config(group.group_id, "share.assignment.interval.ms")
        since_ms = self.at.wall_ms - group.assigned_wall_ms
        return interval_ms - since_ms if 0 <= since_ms < interval_ms else 0

    def _topic_ids(self, member: ShareMember) -> frozenset[Uuid]:
        ids = (self.cluster.id_of(name) for name in member.topics)
        return frozenset(topic_id for topic_id in ids if topic_id is not None)

    def reconcile(self, target: tuple[int, Target], changed: bool) -> ShareMember:
        """The member with its part of the target assignment."""
        epoch, partitions = target
        old = self.member
        if epoch == old.epoch and not changed:
            return old
        subscribed = self._topic_ids(old)
        assigned = {t: own for t, own in partitions.items() if t in subscribed}
        if epoch != old.epoch:
            self.member = old.at_epoch(epoch, assigned)
        else:
            self.member = replace(old, assigned=assigned)
        if self.member != old:
            self.records.append(current_record(self.group.group_id, self.member))
        return self.member

    def initialize(self) -> Initialization | None:
        """Note the partitions that have no state at the share coordinator, and return the request
        for it."""
        group, settings = self.group, self.table.settings
        retry_ms = settings.share_initialize_retry_interval_ms
        missing = missing_of(group, self.names, self.cluster, self.at.now_ms, retry_ms)
        if not missing:
            return None
        states = with_initializing(group.state_topics, missing)
        self.records.append(state_topics_record(group.group_id, states))
        offsets = {
            topic_id: {p: _first_start(group, topic_id, p) for p in sorted(topic.partitions)}
            for topic_id, topic in missing.items()
        }
        return Initialization(group.group_id, self.epoch, offsets)

    def interval_ms(self, target_epoch: int, initializes: bool) -> int:
        """Milliseconds until the next heartbeat. Shorter for a member whose assignment is about to change
        (docs/divergence.md)."""
        group = self.group
        interval_ms = self.cluster.group_config(group.group_id, "share.heartbeat.interval.ms")
        if self.epoch > target_epoch:
            return max(min(interval_ms, self.assignment_wait_ms() + LEAST_MS), LEAST_MS)
        waits = initializes or bool(group.state_topics.initializing)
        return min(interval_ms, SOON_MS) if waits else interval_ms


def _first_start(group: ShareGroup, topic_id: Uuid, partition: int) -> int:
    """Return the start offset of a partition without state. One that a known topic has grown by begins with
    its first record: members do not miss what was produced before the group noticed."""
    states = group.state_topics
    begun = states.initializing.get(topic_id)
    grown = topic_id in states.initialized or (begun and partition not in begun.partitions)
    return 0 if grown else CHOSEN_BY_LEADER


def _assignment(member: ShareMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(member.assigned.items())
        ]
    )


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
