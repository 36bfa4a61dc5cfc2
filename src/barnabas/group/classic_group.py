"""A classic group: its members, its generation and its state. Soft state, changed in place.

Only what :func:`barnabas.group.record_codec.group_record` writes survives the coordinator. The
group decides nothing about time; `rebalance`, `join`, `sync` and `membership` do, and they move it
between states.

Invariants: a member that is not static has an id of its own; at most one member per instance id;
the leader is a member, unless there are none; `state` moves only along `VALID_PREVIOUS`.

Source: ``ClassicGroup`` and ``ClassicGroupMember`` of Apache Kafka 4.3; KIP-345, KIP-394.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from barnabas.group.subscription import SubscriptionError, subscribed_topics
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group_response import JoinGroupResponseMember
from barnabas.wire.request import Parked

CONSUMER_PROTOCOL_TYPE = "consumer"
Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata of each protocol that a member supports, the preferred one first."""


class GroupState(Enum):
    """The states of a group; their values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    """The target assignment of a consumer group is older than the group's epoch."""
    RECONCILING = "Reconciling"
    """A member of a consumer group is not at the target assignment yet."""
    NOT_READY = "NotReady"
    """The topics that exist do not fit the topology of a streams group."""


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class ClassicGroupMember:
    """One member of a classic group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "parked_join",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "parked_sync",
    )

    def __init__(  # noqa: PLR0913 - fields of JoinGroup
        self,
        member_id: str,
        instance_id: str | None,
        *,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.parked_join: Parked | None = None
        """The JoinGroup that waits for the rebalance."""
        self.parked_sync: Parked | None = None
        """The SyncGroup that waits for the leader's assignment."""
        self.is_new = False
        """Whether the member waits for its first generation. The group may remove such a member
        even while its JoinGroup waits."""

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, instance {self.instance_id!r}, {self.protocol_type!r})"

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the member counts as alive: it waits for an answer and is not new."""
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The metadata that the member sent for `protocol_name`. Raises ``KeyError`` if it does not
        support that protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(f"{self!r} does not support protocol {protocol_name!r}")

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate that the member prefers."""
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    """One group of the classic protocol, or one that only commits offsets (no protocol type)."""

    __slots__ = (
        "generation",
        "group_id",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_wall_ms",
        "static_members",
        "topics",
    )

    def __init__(
        self,
        group_id: str,
        state_wall_ms: int,
        *,
        state: GroupState = GroupState.EMPTY,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = GroupState.DEAD
        self.state_wall_ms = state_wall_ms
        """The time at which the group entered its state; -1 if the record does not say."""
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.pending_joins: dict[str, None] = {}
        """Ids of clients that got an id and have not joined yet (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        """Members of this generation that have not asked for their assignment yet."""
        self.topics: frozenset[str] | None = None
        """The topics to which the members subscribe; None if that is not known."""
        self.new_member_added = False
        """Whether a member joined during the initial delay, so that the group waits once more."""

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id!r}, {self.state.value}, generation {self.generation},"
            f" {len(self.members)} members)"
        )

    def describe(self) -> dict[str, object]:
        """The group's state, for tools and failing tests."""
        return {
            "group": self.group_id,
            "state": self.state.value,
            "generation": self.generation,
            "protocol_type": self.protocol_type,
            "protocol": self.protocol_name,
            "leader": self.leader_id,
            "members": list(self.members),
            "awaiting_join": self.awaiting_join_count,
            "pending_joins": list(self.pending_joins),
            "pending_syncs": list(self.pending_syncs),
        }

    def validate(self) -> None:
        """Check invariant 11 for the classic protocol. Raises AssertionError."""
        members = self.members
        instances = {m.instance_id: m.member_id for m in members.values() if m.instance_id}
        assert self.static_members == instances, f"{self!r}: {self.static_members}"
        assert self.leader_id in members if members else self.leader_id is None, repr(self)
        assert not (self.pending_joins.keys() & members.keys()), repr(self)
        assert self.pending_syncs.keys() <= members.keys(), repr(self)
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members and self.protocol_name is not None, repr(self)
        if self.state is GroupState.EMPTY:
            assert not members, repr(self)

    @property
    def awaiting_join_count(self) -> int:
        return sum(member.parked_join is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether every member waits for the rebalance to complete, and no new member is still expected."""
        return not self.pending_joins and all(
            member.parked_join is not None for member in self.members.values()
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        """Move to `state`."""
        assert self.state in VALID_PREVIOUS[state], f"{self!r} cannot become {state.value}"
        self.previous_state, self.state = self.state, state
        self.state_wall_ms = wall_ms

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member that joined or was loaded."""
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, f"{member!r} is there already"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, f"{member!r} does not fit {self!r}"
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, or an id that has not joined yet. If the leader is removed, the oldest
        member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicGroupMember:
        """Give the static member another id and return the new member; its other state stays, and it asks
        for its assignment where the old one had not. The old member is dropped, so the caller first
        fences the client that waits under the old id."""
        old = self.members.pop(old_id)
        if old_id in self.pending_syncs:
            del self.pending_syncs[old_id]
            self.pending_syncs[new_id] = None
        new = ClassicGroupMember(
            new_id,
            instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        self.static_members[instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has rejoined, else make the first member that has rejoined the
        leader. Returns False if no member has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None:
            return False
        if leader.parked_join is not None:
            return True
        for member in self.members.values():
            if member.parked_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID (KIP-345)."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is not None and existing != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"instance {instance_id} of group {self.group_id} is member {existing} now",
                )
            if existing is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"group {self.group_id} has no instance {instance_id}",
                )
        if member_id not in self.members:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has no member {member_id!r}"
            )

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with that protocol type and those protocols can be in the group."""
        offered = set(names)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and offered)
        if self.protocol_type != protocol_type:
            return False
        return bool(offered) if not self.members else not offered.isdisjoint(self.candidates())

    def candidates(self) -> frozenset[str]:
        """The protocols that every member supports."""
        shared: set[str] | None = None
        for member in self.members.values():
            names = {name for name, _ in member.protocols}
            shared = names if shared is None else shared & names
        return frozenset(shared or ())

    def select_protocol(self) -> str:
        """The protocol with the most votes; among equals the one that got its first vote
        earliest."""
        candidates = self.candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    def begin_generation(self, wall_ms: int) -> None:
        """Begin the next generation with the present members."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.topics = self.compute_topics()
        following = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        self.move_to(following, wall_ms)
        self.pending_syncs.clear()

    def compute_topics(self) -> frozenset[str] | None:
        """The topics in the members' subscriptions; None if they cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(subscribed_topics(member.metadata(self.protocol_name)))
            except SubscriptionError:
                return None
        return frozenset(topics)

    def subscribes_to(self, topic: str) -> bool:
        """Whether offsets of `topic` are in use; also true if the subscriptions cannot be read."""
        return self.uses_consumer_protocol if self.topics is None else topic in self.topics

    def join_members(self) -> list[JoinGroupResponseMember]:
        """The members with their metadata, for the answer to the leader."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]
