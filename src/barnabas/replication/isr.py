"""The states of one partition's ISR on its leader.

Between the wish for another ISR and the controller's answer the leader does not know which one
holds. Then only the *committed* ISR counts for acknowledging with fewer replicas (min.insync.replicas),
and the *maximal* one, every replica that may be a member already, counts for the high watermark:
whatever the answer will be, an acknowledged record is on every member.

Source: Kafka's PartitionState (CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr); KIP-497.
"""

from __future__ import annotations

from dataclasses import dataclass

RECOVERED = 0
RECOVERING = 1


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The ISR as the metadata log has it; nothing is asked for."""

    isr: tuple[int, ...]
    recovery: int = RECOVERED

    @property
    def committed(self) -> CommittedIsr:
        return self

    @property
    def maximal(self) -> tuple[int, ...]:
        return self.isr

    @property
    def wanted(self) -> tuple[int, ...]:
        return self.isr

    @property
    def in_flight(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """The controller was asked to take `joining` in: it counts for the high watermark from now on."""

    committed: CommittedIsr
    joining: int

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def maximal(self) -> tuple[int, ...]:
        return (*self.committed.isr, self.joining)

    @property
    def wanted(self) -> tuple[int, ...]:
        return self.maximal

    @property
    def in_flight(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """The controller was asked to drop `leaving`: they count until it has said yes."""

    committed: CommittedIsr
    leaving: tuple[int, ...]

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def maximal(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def wanted(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.committed.isr if broker not in self.leaving)

    @property
    def in_flight(self) -> bool:
        return True


IsrState = CommittedIsr | PendingExpand | PendingShrink
