"""A streams group: members, epochs, topology, target assignment and who has which task, all undoable.

Everything here is a function of the replayed records, except what only this coordinator knows: the
topology as configured with the topics that exist, what members reported of their tasks' offsets, the
epoch of the members' endpoints, and the member that asked the application to shut down.

Invariants: `assignment_epoch` <= `epoch`; a task is active for one member at most.

Source: ``StreamsGroup`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.group.classic_group import GroupState
from barnabas.group.streams.configured_topology import ConfiguredTopology
from barnabas.group.streams.member import HeldTasks, StreamsMember, TaskId, TaskRoles
from barnabas.group.streams.topology import StreamsTopology
from barnabas.timeline import Journal, TimelineMap
from barnabas.wire.errors import ErrorCode, KafkaError

PROTOCOL_TYPE = "streams"
FIRST_EPOCH = 1
"""The epoch of a group before its first member, and of its empty target assignment."""
NO_EPOCH = -1
Settings = Mapping[str, str]
TaskOffsets = Mapping[TaskId, int]
_ACTIVE, _STANDBY, _WARMUP = "active", "standby", "warmup"
_ALL = "all"
Holders = tuple[str, ...]
"""Process ids, sorted; one for each member that has the task."""


class Epochs(NamedTuple):
    """The numbers of a group's own records. Every change writes them together."""

    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology: int = NO_EPOCH
    """The epoch of the topology that fits the topics that exist."""
    stored_description: int = NO_EPOCH
    failed_description: int = NO_EPOCH
    settings: tuple[tuple[str, str], ...] = ()
    """The group's settings on which the assignment rests, sorted."""


class TargetEpoch(NamedTuple):
    """The epoch of the target assignment, and the date at which it was computed."""

    epoch: int = FIRST_EPOCH
    wall_ms: int = 0


class StreamsGroup:
    """One group of the streams protocol."""

    __slots__ = (
        "_epochs",
        "_holders",
        "_target_epochs",
        "_topologies",
        "configured",
        "endpoint_epoch",
        "group_id",
        "is_dead",
        "members",
        "refresh_epoch",
        "refresh_ms",
        "shutdown_asked_by",
        "static_members",
        "targets",
        "task_end_offsets",
        "task_offsets",
    )

    protocol_type = PROTOCOL_TYPE
    uses_consumer_protocol = True
    """Offsets of topics that it does not read may be deleted while it has members."""
    state_wall_ms = -1

    def __init__(self, group_id: str, journal: Journal) -> None:
        self.group_id = group_id
        self.members: TimelineMap[str, StreamsMember] = TimelineMap(journal)
        self.static_members: TimelineMap[str, str] = TimelineMap(journal)
        self.targets: TimelineMap[str, TaskRoles] = TimelineMap(journal)
        self._epochs: TimelineMap[str, Epochs] = TimelineMap(journal)
        self._target_epochs: TimelineMap[str, TargetEpoch] = TimelineMap(journal)
        self._topologies: TimelineMap[str, StreamsTopology] = TimelineMap(journal)
        self._holders: TimelineMap[tuple[str, TaskId], Holders] = TimelineMap(journal)
        self.configured: ConfiguredTopology | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        """Each member's last report of how far its tasks are."""
        self.task_end_offsets: dict[str, TaskOffsets] = {}
        self.endpoint_epoch = 0
        self.shutdown_asked_by: str | None = None
        self.refresh_ms = 0.0
        self.refresh_epoch = 0
        self.is_dead = False

    def __repr__(self) -> str:
        return (
            f"StreamsGroup({self.group_id!r}, {self.state.value}, epoch {self.epoch},"
            f" assignment {self.target_epoch.epoch}, {len(self.members)} members)"
        )

    def describe(self) -> dict[str, object]:
        """The group's state, for tools and failing tests."""
        return {
            "group": self.group_id,
            "state": self.state.value,
            "epoch": self.epoch,
            "assignment_epoch": self.target_epoch.epoch,
            "members": {m.member_id: m.epoch for _, m in self.members.items()},
        }

    def validate(self) -> None:
        """Check the invariants. Raises AssertionError."""
        assert self.target_epoch.epoch <= self.epoch, repr(self)
        found: dict[tuple[str, TaskId], list[str]] = {}
        for member_id, member in self.members.items():
            assert member.epoch <= self.epoch, f"{member_id} is ahead of {self!r}"
            for key in _held(member):
                found.setdefault(key, []).append(member.process_id)
        known = dict(self._holders.items())
        assert {key: tuple(sorted(ids)) for key, ids in found.items()} == known, repr(self)
        for (role, task), ids in found.items():
            assert role != _ACTIVE or len(ids) == 1, f"{task} is active at {ids}: {self!r}"
        for instance_id, member_id in self.static_members.items():
            named = self.members.get(member_id)
            assert named is not None and named.instance_id == instance_id, (
                f"{instance_id}: {self!r}"
            )

    # Numbers

    @property
    def epochs(self) -> Epochs:
        return self._epochs.get(_ALL) or Epochs()

    @property
    def epoch(self) -> int:
        return self.epochs.epoch

    @property
    def target_epoch(self) -> TargetEpoch:
        return self._target_epochs.get(_ALL) or TargetEpoch()

    def committed_epochs(self) -> tuple[Epochs, TargetEpoch]:
        return (
            self._epochs.committed(_ALL) or Epochs(),
            self._target_epochs.committed(_ALL) or TargetEpoch(),
        )

    def set_epochs(self, epochs: Epochs) -> None:
        self._epochs.put(_ALL, epochs)

    def set_target_epoch(self, target: TargetEpoch) -> None:
        self._target_epochs.put(_ALL, target)

    @property
    def topology(self) -> StreamsTopology | None:
        return self._topologies.get(_ALL)

    def committed_topology(self) -> StreamsTopology | None:
        return self._topologies.committed(_ALL)

    def set_topology(self, topology: StreamsTopology | None) -> None:
        if topology is None:
            self._topologies.remove(_ALL)
        else:
            self._topologies.put(_ALL, topology)

    # State

    @property
    def state(self) -> GroupState:
        if self.is_dead:
            return GroupState.DEAD
        members = [member for _, member in self.members.items()]
        return _state_of(members, self.topology, self.epochs, self.target_epoch)

    def committed_state(self) -> GroupState:
        if self.is_dead:
            return GroupState.DEAD
        members = [member for _, member in self.members.committed_items()]
        return _state_of(members, self.committed_topology(), *self.committed_epochs())

    @property
    def is_empty(self) -> bool:
        return not len(self.members)

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    @property
    def topics(self) -> frozenset[str]:
        """Names of the topics that its tasks read; none while it has no members."""
        topology = self.topology
        return frozenset() if self.is_empty or topology is None else frozenset(topology.by_source)

    def subscribes_to(self, topic: str) -> bool:
        """Whether offsets of `topic` are in use."""
        topology = self.topology
        return not self.is_empty and topology is not None and topic in topology.by_source

    def watches(self, topic: str) -> bool:
        """Whether the metadata of `topic` matter to the group."""
        topology = self.topology
        return topology is not None and topic in topology.required

    # Members

    def member(self, member_id: str) -> StreamsMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> StreamsMember | None:
        """The member with that instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def put_member(self, member: StreamsMember) -> None:
        """Replace a member by its new state, or add it."""
        old = self.members.put(member.member_id, member)
        if old is not None and old.instance_id not in (None, member.instance_id):
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members.put(member.instance_id, member.member_id)
        self._hold(old, member)

    def remove_member(self, member_id: str) -> None:
        old = self.members.remove(member_id)
        if old is None:
            return
        self._forget_instance(old)
        self._hold(old, None)
        self.task_offsets.pop(member_id, None)
        self.task_end_offsets.pop(member_id, None)
        if self.is_empty:
            self.shutdown_asked_by = None

    def _forget_instance(self, old: StreamsMember) -> None:
        instance_id = old.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == old.member_id:
            self.static_members.remove(instance_id)

    def note_offsets(
        self, member_id: str, offsets: TaskOffsets | None, end_offsets: TaskOffsets | None
    ) -> None:
        """Remember how far a member's tasks are, and forget it of members that are gone. None leaves what
        is known."""
        for known, reported in (
            (self.task_offsets, offsets),
            (self.task_end_offsets, end_offsets),
        ):
            if reported is not None:
                known[member_id] = reported
            for gone in [key for key in known if key not in self.members]:
                del known[gone]

    # Who has which task

    def active_at(self, task: TaskId) -> Holders:
        """The processes at which the task is active."""
        return self._holders.get((_ACTIVE, task)) or ()

    def standby_at(self, task: TaskId) -> Holders:
        return self._holders.get((_STANDBY, task)) or ()

    def warmup_at(self, task: TaskId) -> Holders:
        return self._holders.get((_WARMUP, task)) or ()

    def _hold(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        """Replace the tasks that `old` had by those that `new` has."""
        before = [] if old is None else [(key, old.process_id) for key in _held(old)]
        after = [] if new is None else [(key, new.process_id) for key in _held(new)]
        if before == after:
            return
        for key, process_id in before:
            left = list(self._holders.get(key) or ())
            left.remove(process_id)
            self._set_holders(key, left)
        for key, process_id in after:
            self._set_holders(key, [*(self._holders.get(key) or ()), process_id])

    def _set_holders(self, key: tuple[str, TaskId], process_ids: list[str]) -> None:
        if process_ids:
            self._holders.put(key, tuple(sorted(process_ids)))
        else:
            self._holders.remove(key)

    # Metadata of topics

    def wants_refresh(self, now_ms: float) -> bool:
        """Whether the topics' metadata are to be looked at. They are also where an epoch that rested
        on the last look was lost."""
        return now_ms >= self.refresh_ms or self.epoch < self.refresh_epoch

    def request_refresh(self) -> None:
        """A topic of the topology changed."""
        self.refresh_ms = 0.0

    def refreshed(self, until_ms: float, epoch: int) -> None:
        self.refresh_ms, self.refresh_epoch = until_ms, epoch


def _held(member: StreamsMember) -> list[tuple[str, TaskId]]:
    keys: list[tuple[str, TaskId]] = []
    for held in (member.assigned, member.revoking):
        keys += _keys(held)
    return keys


def _keys(held: HeldTasks) -> Iterable[tuple[str, TaskId]]:
    yield from ((_ACTIVE, task) for task in held.active)
    yield from ((_STANDBY, task) for task in sorted(held.standby))
    yield from ((_WARMUP, task) for task in sorted(held.warmup))


def _state_of(
    members: list[StreamsMember],
    topology: StreamsTopology | None,
    epochs: Epochs,
    target: TargetEpoch,
) -> GroupState:
    if not members:
        return GroupState.EMPTY
    if topology is None or topology.epoch != epochs.validated_topology:
        return GroupState.NOT_READY
    if epochs.epoch > target.epoch:
        return GroupState.ASSIGNING
    if all(member.is_reconciled_to(target.epoch) for member in members):
        return GroupState.STABLE
    return GroupState.RECONCILING


def detached(group_id: str) -> StreamsGroup:
    """A group that is in no table: what an operation builds before its records are replayed."""
    journal = Journal()
    journal.committed = 1 << 62
    return StreamsGroup(group_id, journal)
