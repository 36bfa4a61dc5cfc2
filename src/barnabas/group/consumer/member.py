"""One member of a consumer group, with the state that its records hold.

Invariants: no partition is both in `assigned` and in `revoking`; `epoch` is the epoch of the target
assignment that the member has reached or moves to, or -2 for a static member that left temporarily.

Source: ``ConsumerGroupMember`` and ``MemberState`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from barnabas.types import Uuid

JOIN_EPOCH = 0
"""A heartbeat with this epoch joins the group."""
LEAVE_EPOCH = -1
"""A heartbeat with this epoch leaves the group."""
LEAVE_STATIC_EPOCH = -2
"""A heartbeat with this epoch says that a static member leaves and will return within its session
time-out."""

Assigned = Mapping[Uuid, Mapping[int, int]]
"""The member epoch at which each partition was assigned, by topic id and partition."""
Target = Mapping[Uuid, frozenset[int]]
"""The partitions that a member is to have, by topic id."""
Owned = Mapping[Uuid, frozenset[int]]
"""The partitions that a member reports to own, by topic id."""


class MemberState(IntEnum):
    """A member's progress towards its target assignment; the numbers are those of Kafka's
    records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has yet to give up partitions."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that others have yet to give up."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The metadata that a member of the classic protocol sent in its JoinGroup request."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Assignor names with the member's subscription (ConsumerProtocolSubscription), preferred first."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member, immutable: `replace` makes a changed one."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Names of the topics that it subscribes to, sorted."""
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None
    """The member's JoinGroup metadata; None for a member of the consumer protocol."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)
    """Partitions that the member must give up; it owns them until it reports that it has."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member owns exactly its partitions in the target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at_epoch(
        self,
        epoch: int,
        state: MemberState,
        assigned: Assigned,
        revoking: Assigned | None = None,
    ) -> ConsumerMember:
        """The member at `epoch`, with its present epoch as the previous one."""
        return replace(
            self,
            previous_epoch=self.epoch,
            epoch=epoch,
            state=state,
            assigned=assigned,
            revoking={} if revoking is None else revoking,
        )

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """The member epoch at which the partition was assigned; None if the member does not own
        it."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


def owned_of(topics: Iterable[tuple[Uuid, Iterable[int]]]) -> dict[Uuid, frozenset[int]]:
    """Partitions by topic id, merged from the topics of a request, which may name a topic twice."""
    owned: dict[Uuid, frozenset[int]] = {}
    for topic_id, partitions in topics:
        owned[topic_id] = owned.get(topic_id, frozenset()) | frozenset(partitions)
    return owned


def is_within(owned: Owned | None, assigned: Assigned) -> bool:
    """Whether the member reported its partitions, and all of them are in `assigned`."""
    if owned is None:
        return False
    return all(
        all(partition in assigned.get(topic_id, {}) for partition in partitions)
        for topic_id, partitions in owned.items()
    )
