"""The states of one partition's ISR on its leader.

Between a request for another ISR and the controller's answer, the leader does not know which one is in
effect. Meanwhile the *committed* ISR counts for min.insync.replicas, and the *maximal* ISR, all replicas that
may be members, counts for the high watermark. So an acknowledged record is on every member, whatever the
answer is.

Source: Kafka's PartitionState (CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr); KIP-497.
"""

from __future__ import annotations

from dataclasses import dataclass

RECOVERED = 0
RECOVERING = 1


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The ISR of the metadata log; no change is requested."""

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
    """The controller was asked to add `joining`, which counts for the high watermark from now on."""

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
    """The controller was asked to remove `leaving`; they count for the high watermark until it has."""

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
