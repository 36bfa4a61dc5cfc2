"""A share group: members, epochs, target assignment, and its partitions with state at the share
coordinator, all undoable.

Everything here is a function of the replayed records, except the deadline at which the topics'
metadata are looked at again, and the times at which initializations began.

Invariant: `assignment_epoch` <= `epoch`.

Source: ``ShareGroup`` and ``ModernGroup`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from barnabas.group.classic_group import GroupState
from barnabas.timeline import Journal, TimelineMap
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
PROTOCOL_TYPE = "share"
Target = Mapping[Uuid, frozenset[int]]
"""The partitions that a member is to have, by topic id."""
_EPOCH, _HASH, _ASSIGNMENT_EPOCH, _ASSIGNED_MS = "epoch", "hash", "assignment epoch", "assigned at"
_ALL = "all"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member, immutable: `replace` makes a changed one."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Names of the topics that it subscribes to, sorted."""
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Target = field(default_factory=dict)

    def at_epoch(self, epoch: int, assigned: Target) -> ShareMember:
        return replace(self, previous_epoch=self.epoch, epoch=epoch, assigned=assigned)


class StateTopic(NamedTuple):
    """The partitions of one topic that have state at the share coordinator, or will have it
    soon."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class StateTopics:
    """The partitions of the group with state at the share coordinator, by topic id."""

    initializing: Mapping[Uuid, StateTopic] = field(default_factory=dict)
    initialized: Mapping[Uuid, StateTopic] = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)
    """The names of topics whose states are being deleted."""


NO_STATE = StateTopics()


class ShareGroup:
    """One group of the share protocol."""

    __slots__ = (
        "_numbers",
        "_states",
        "_topic_counts",
        "group_id",
        "initializing_since",
        "is_dead",
        "members",
        "refresh_epoch",
        "refresh_ms",
        "targets",
    )

    protocol_type = PROTOCOL_TYPE
    uses_consumer_protocol = False
    state_wall_ms = -1

    def __init__(self, group_id: str, journal: Journal) -> None:
        self.group_id = group_id
        self.members: TimelineMap[str, ShareMember] = TimelineMap(journal)
        self.targets: TimelineMap[str, Target] = TimelineMap(journal)
        self._states: TimelineMap[str, StateTopics] = TimelineMap(journal)
        self._numbers: TimelineMap[str, int] = TimelineMap(journal)
        self._topic_counts: TimelineMap[str, int] = TimelineMap(journal)
        self.refresh_ms = 0.0
        self.refresh_epoch = 0
        self.initializing_since: dict[Uuid, float] = {}
        """The time at which this coordinator last asked the share coordinator to initialize a
        topic's partitions."""
        self.is_dead = False

    def __repr__(self) -> str:
        return (
            f"ShareGroup({self.group_id!r}, {self.state.value}, epoch {self.epoch},"
            f" assignment {self.assignment_epoch}, {len(self.members)} members)"
        )

    def describe(self) -> dict[str, object]:
        """The group's state, for tools and failing tests."""
        return {
            "group": self.group_id,
            "state": self.state.value,
            "epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "members": {m.member_id: m.epoch for _, m in self.members.items()},
        }

    def validate(self) -> None:
        """Check the invariants. Raises AssertionError."""
        assert self.assignment_epoch <= self.epoch, repr(self)
        counts: dict[str, int] = {}
        for member_id, member in self.members.items():
            assert member.epoch <= self.epoch, f"{member_id} is ahead of {self!r}"
            for name in member.topics:
                counts[name] = counts.get(name, 0) + 1
        assert counts == self.topic_counts(), repr(self)

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
        return GroupState.STABLE if len(self.members) else GroupState.EMPTY

    def committed_state(self) -> GroupState:
        if self.is_dead:
            return GroupState.DEAD
        has_members = any(True for _ in self.members.committed_items())
        return GroupState.STABLE if has_members else GroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not len(self.members)

    @property
    def topics(self) -> frozenset[str]:
        """The names to which some member subscribes."""
        return frozenset(name for name, _ in self._topic_counts.items())

    def topic_counts(self) -> dict[str, int]:
        """Members by topic."""
        return dict(self._topic_counts.items())

    def subscribes_to(self, topic: str) -> bool:
        return topic in self._topic_counts

    def watches(self, topic: str) -> bool:
        """Whether the metadata of `topic` matter to the group."""
        return topic in self._topic_counts

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    # Members

    def member(self, member_id: str) -> ShareMember:
        """The member with that id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def put_member(self, member: ShareMember) -> None:
        """Replace a member by its new state, or add it."""
        old = self.members.put(member.member_id, member)
        self._count(() if old is None else old.topics, member.topics)

    def remove_member(self, member_id: str) -> None:
        old = self.members.remove(member_id)
        if old is not None:
            self._count(old.topics, ())

    def _count(self, old: Iterable[str], new: Iterable[str]) -> None:
        counts = self._topic_counts
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

    # The partitions with state at the share coordinator

    @property
    def state_topics(self) -> StateTopics:
        return self._states.get(_ALL) or NO_STATE

    @property
    def has_state_record(self) -> bool:
        return _ALL in self._states

    def committed_state_topics(self) -> StateTopics:
        return self._states.committed(_ALL) or NO_STATE

    def set_state_topics(self, states: StateTopics | None) -> None:
        if states is None:
            self._states.remove(_ALL)
        else:
            self._states.put(_ALL, states)

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


def detached(group_id: str) -> ShareGroup:
    """A group that is in no table; an operation builds it before its records are replayed."""
    journal = Journal()
    journal.committed = 1 << 62
    return ShareGroup(group_id, journal)
