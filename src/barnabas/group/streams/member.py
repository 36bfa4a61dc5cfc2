"""One member of a streams group, with the state that its records hold, and the tasks that members have.

Invariants: no task is active for two members at once, those counted that have yet to give it up; `epoch`
is the epoch of the target assignment that the member has reached or moves to, or -2 for a static member
that left temporarily.

Source: ``StreamsGroupMember``, ``TasksTuple``, ``TasksTupleWithEpochs`` and ``MemberState`` of Apache Kafka
4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

JOIN_EPOCH = 0
"""A heartbeat with this epoch joins the group."""
LEAVE_EPOCH = -1
"""A heartbeat with this epoch leaves the group."""
LEAVE_STATIC_EPOCH = -2
"""A static member leaves and will return within its session time-out."""


class TaskId(NamedTuple):
    """One subtopology, on one partition of its source topics."""

    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True)
class TaskRoles:
    """The tasks that a member is to have, or says that it has."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """The tasks that a member has. Active tasks have the member epoch at which they were assigned."""

    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def overlaps(self, owned: TaskRoles) -> bool:
        """Whether some task is in `owned` in the same role."""
        return (
            not owned.active.isdisjoint(self.active)
            or not self.standby.isdisjoint(owned.standby)
            or not self.warmup.isdisjoint(owned.warmup)
        )

    def contains(self, owned: TaskRoles) -> bool:
        """Whether all tasks of `owned` are among these, in the same role."""
        return (
            owned.active <= self.active.keys()
            and owned.standby <= self.standby
            and owned.warmup <= self.warmup
        )


NOTHING = TaskRoles()
HOLDS_NOTHING = HeldTasks()


class StreamsMemberState(IntEnum):
    """Progress of a member towards its target assignment. The numbers are those of Kafka's records of streams
    groups; records of consumer groups have others."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """The member has yet to give up tasks."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that others have yet to give up."""
    UNKNOWN = 127


class UserEndpoint(NamedTuple):
    """The address at which other instances of the application ask for a member's state."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """Immutable: `replace` makes a changed member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """The client's tags, sorted by key."""
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: HeldTasks = HOLDS_NOTHING
    revoking: HeldTasks = HOLDS_NOTHING
    """Tasks that the member must give up; it has them until it reports that it has not."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has exactly its tasks in the target assignment of `epoch`."""
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def at_epoch(
        self,
        epoch: int,
        state: StreamsMemberState,
        assigned: HeldTasks,
        revoking: HeldTasks = HOLDS_NOTHING,
    ) -> StreamsMember:
        """The member at `epoch`, with its present epoch as the previous one."""
        return replace(
            self,
            previous_epoch=self.epoch,
            epoch=epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def away(self) -> StreamsMember:
        """The member while it has left temporarily: it keeps its tasks, and nothing that it commits is
        older than them."""
        held = replace(self.assigned, active=dict.fromkeys(self.assigned.active, 0))
        return replace(self, epoch=LEAVE_STATIC_EPOCH, assigned=held, revoking=HOLDS_NOTHING)

    def assignment_epoch(self, task: TaskId) -> int | None:
        """The member epoch at which the active task was assigned; None where the member does not have
        it."""
        epoch = self.assigned.active.get(task)
        return self.revoking.active.get(task) if epoch is None else epoch
