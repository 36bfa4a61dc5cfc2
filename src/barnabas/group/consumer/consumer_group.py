"""A consumer group: members, epochs, target assignment and resolved expressions, all undoable.

Everything here is a function of the replayed records, except the deadline at which the topics'
metadata are looked at again, and a large assignment that is being computed. Reads see the newest
state; those with `committed` in their name see the committed state.

Invariants: a partition has at most one owner (`owners`), but for `owned_twice`; `assignment_epoch` <=
`epoch`; at most one member per instance id. The first two are asserted where an operation decides (`change`).

Source: ``ConsumerGroup`` and ``ModernGroup`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.group.classic_group import CONSUMER_PROTOCOL_TYPE, GroupState
from barnabas.group.consumer.assignors.spec import Steps
from barnabas.group.consumer.member import ConsumerMember, MemberState, Target
from barnabas.group.consumer.owned_partitions import OwnedPartitions
from barnabas.timeline import Journal, TimelineMap
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

_EPOCH, _HASH, _ASSIGNMENT_EPOCH, _ASSIGNED_MS = "epoch", "hash", "assignment epoch", "assigned at"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches."""

    topics: tuple[str, ...]
    version: int
    """The metadata offset at which it was resolved."""
    resolved_ms: int
    """The time at which it was resolved (date)."""


@dataclass(slots=True)
class Assigning:
    """A large target assignment that is being computed (`large_assignment`)."""

    basis: tuple[int, tuple[str, ...]]
    """The group's epoch and members when the computation began."""
    steps: Steps
    restarts: int


class ConsumerGroup:
    """One group of the consumer protocol."""

    __slots__ = (
        "_journal",
        "_numbers",
        "_regex_counts",
        "_topic_counts",
        "assigning",
        "group_id",
        "is_dead",
        "members",
        "owned_twice",
        "owners",
        "refresh_epoch",
        "refresh_ms",
        "regexes",
        "static_members",
        "subscription_record",
        "targets",
    )

    protocol_type = CONSUMER_PROTOCOL_TYPE
    uses_consumer_protocol = True
    state_wall_ms = -1
    """Always -1: offsets of consumer groups expire by the time of their commit."""

    def __init__(self, group_id: str, journal: Journal) -> None:
        self.group_id = group_id
        self._journal = journal
        self.members: TimelineMap[str, ConsumerMember] = TimelineMap(journal)
        self.static_members: TimelineMap[str, str] = TimelineMap(journal)
        """Member id by instance id."""
        self.targets: TimelineMap[str, Target] = TimelineMap(journal)
        self.regexes: TimelineMap[str, ResolvedRegex] = TimelineMap(journal)
        self.owners = OwnedPartitions(journal)
        self.owned_twice: frozenset[tuple[Uuid, int]] = frozenset()
        """Partitions that had two owners when the group was loaded (`OwnedPartitions`). No
        partition is added later."""
        self._numbers: TimelineMap[str, int] = TimelineMap(journal)
        self._topic_counts: TimelineMap[str, int] = TimelineMap(journal)
        self._regex_counts: TimelineMap[str, int] = TimelineMap(journal)
        self.subscription_record = False
        """Whether the log has a record of the topics' metadata, which brokers before 4.1 wrote."""
        self.refresh_ms = 0.0
        """The time of the next look at the topics' metadata; 0 is at once."""
        self.refresh_epoch = 0
        self.is_dead = False
        self.assigning: Assigning | None = None
        """A large target assignment that is being computed, or None."""

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.state.value}, epoch {self.epoch},"
            f" assignment {self.assignment_epoch}, {len(self.members)} members)"
        )

    def describe(self) -> dict[str, object]:
        """The group's state, for tools and failing tests."""
        return {
            "group": self.group_id,
            "state": self.state.value,
            "epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "members": {m.member_id: (m.epoch, m.state.name) for _, m in self.members.items()},
        }

    def validate(self) -> None:
        """Check invariant 11 for the consumer protocol. Raises AssertionError."""
        assert self.assignment_epoch <= self.epoch, repr(self)
        owned: set[tuple[Uuid, int]] = set()
        twice: set[tuple[Uuid, int]] = set()
        for member_id, member in self.members.items():
            assert member.epoch <= self.epoch, f"{member_id} is ahead of {self!r}"
            for places in (member.assigned, member.revoking):
                for topic_id, partitions in places.items():
                    named = {(topic_id, partition) for partition in partitions}
                    twice |= owned & named
                    owned |= named
        assert twice <= self.owned_twice, f"several own {twice - self.owned_twice}: {self!r}"
        assert twice == self.owners.contested(), f"{twice}: {self.owners!r}"
        assert owned == set(self.owners), repr(self)
        for instance_id, member_id in self.static_members.items():
            known = self.members.get(member_id)
            assert known is not None and known.instance_id == instance_id, (
                f"{instance_id}: {self!r}"
            )

    # Numbers

    @property
    def epoch(self) -> int:
        return self._numbers.get(_EPOCH) or 0

    @property
    def metadata_hash(self) -> int:
        return self._numbers.get(_HASH) or 0

    @property
    def assignment_epoch(self) -> int:
        return self._numbers.get(_ASSIGNMENT_EPOCH) or 0

    @property
    def assigned_wall_ms(self) -> int:
        """The time at which the target assignment was computed (date)."""
        return self._numbers.get(_ASSIGNED_MS) or 0

    def committed_epochs(self) -> tuple[int, int]:
        """The committed group epoch and assignment epoch."""
        numbers = self._numbers
        return numbers.committed(_EPOCH) or 0, numbers.committed(_ASSIGNMENT_EPOCH) or 0

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self._numbers.put(_EPOCH, epoch)
        self._numbers.put(_HASH, metadata_hash)

    def set_assignment_epoch(self, epoch: int, wall_ms: int) -> None:
        self._numbers.put(_ASSIGNMENT_EPOCH, epoch)
        self._numbers.put(_ASSIGNED_MS, wall_ms)

    # State

    @property
    def state(self) -> GroupState:
        if self.is_dead:
            return GroupState.DEAD
        members = (member for _, member in self.members.items())
        return _state_of(members, len(self.members), self.epoch, self.assignment_epoch)

    def committed_state(self) -> GroupState:
        if self.is_dead:
            return GroupState.DEAD
        members = [member for _, member in self.members.committed_items()]
        return _state_of(members, len(members), *self.committed_epochs())

    @property
    def is_empty(self) -> bool:
        return not len(self.members)

    @property
    def topics(self) -> frozenset[str]:
        """The names to which some member subscribes."""
        return frozenset(name for name, _ in self._topic_counts.items())

    def topic_counts(self) -> dict[str, int]:
        """The number of members and expressions that subscribe to each topic."""
        return dict(self._topic_counts.items())

    def subscribes_to(self, topic: str) -> bool:
        """Whether offsets of `topic` are in use."""
        return topic in self._topic_counts

    def watches(self, topic: str) -> bool:
        """Whether the metadata of `topic` matter to the group."""
        return topic in self._topic_counts

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        """The member with that id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with that instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def regex_subscribers(self, regex: str) -> int:
        """The number of members that subscribe by `regex`."""
        return self._regex_counts.get(regex) or 0

    def subscribed_regexes(self) -> list[str]:
        return [regex for regex, _ in self._regex_counts.items()]

    def put_member(self, member: ConsumerMember) -> None:
        """Replace a member by its new state, or add it."""
        old = self.members.put(member.member_id, member)
        _count(self._topic_counts, () if old is None else old.topics, member.topics)
        if old is None or old.regex != member.regex:
            _count(self._regex_counts, _some(old.regex if old else ""), _some(member.regex))
        if old is not None and old.instance_id not in (None, member.instance_id):
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members.put(member.instance_id, member.member_id)
        if old is not None and old.assigned is member.assigned and old.revoking is member.revoking:
            return
        self._own(old, member)

    def remove_member(self, member_id: str) -> None:
        old = self.members.remove(member_id)
        if old is None:
            return
        _count(self._topic_counts, old.topics, ())
        _count(self._regex_counts, _some(old.regex), ())
        self._forget_instance(old)
        self._own(old, None)

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        old = self.regexes.put(regex, resolved)
        _count(self._topic_counts, () if old is None else old.topics, resolved.topics)

    def remove_regex(self, regex: str) -> None:
        old = self.regexes.remove(regex)
        if old is not None:
            _count(self._topic_counts, old.topics, ())

    def _forget_instance(self, old: ConsumerMember) -> None:
        instance_id = old.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == old.member_id:
            self.static_members.remove(instance_id)

    def _own(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Replace the partitions that `old` owned by those that `new` owns."""
        before = (old.assigned, old.revoking) if old is not None else ()
        after = (new.assigned, new.revoking) if new is not None else ()
        self.owners.change(before, after)

    # Metadata of topics

    def wants_refresh(self, now_ms: float) -> bool:
        """Whether the topics' metadata have to be looked at; also true if the epoch of the last
        look was undone."""
        return now_ms >= self.refresh_ms or self.epoch < self.refresh_epoch

    def request_refresh(self) -> None:
        """A subscribed topic changed: look at the topics' metadata with the next heartbeat."""
        self.refresh_ms = 0.0

    def refreshed(self, until_ms: float, epoch: int) -> None:
        self.refresh_ms, self.refresh_epoch = until_ms, epoch


def _state_of(
    members: Iterable[ConsumerMember], count: int, epoch: int, assignment_epoch: int
) -> GroupState:
    if not count:
        return GroupState.EMPTY
    if epoch > assignment_epoch:
        return GroupState.ASSIGNING
    if all(member.is_reconciled_to(assignment_epoch) for member in members):
        return GroupState.STABLE
    return GroupState.RECONCILING


def _some(regex: str) -> tuple[str, ...]:
    return (regex,) if regex else ()


def _count(counts: TimelineMap[str, int], old: Iterable[str], new: Iterable[str]) -> None:
    if old == new:
        return
    for name in new:
        counts.put(name, (counts.get(name) or 0) + 1)
    for name in old:
        left = (counts.get(name) or 1) - 1
        if left:
            counts.put(name, left)
        else:
            counts.remove(name)


def waits_for_release(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether partitions of its target assignment are still owned by others."""
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    for topic_id, partitions in (group.targets.get(member.member_id) or {}).items():
        lacking = partitions - member.assigned.get(topic_id, {}).keys()
        if lacking and group.owners.among(topic_id, lacking):
            return True
    return False


def detached(group_id: str) -> ConsumerGroup:
    """A group that is in no table; an operation builds it before its records are replayed."""
    journal = Journal()
    journal.committed = 1 << 62
    return ConsumerGroup(group_id, journal)
