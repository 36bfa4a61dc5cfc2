"""Changes of a share partition on their way to the share coordinator, one write after the other.

What changes while a write is under way goes with the next one. A change that members wait for is undone
where its write fails. An effective change (a lock that ended, a start that was chosen, a dead letter that
is written) cannot be undone: it is written again, before what came later.

Source: ``SharePartition.writeShareGroupState`` of Apache Kafka 4.4; KIP-1191.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.share.in_flight import InFlightPieces, total
from barnabas.broker.share.open_letters import DeadLetter
from barnabas.share.delivery import StateBatch, combine


class DeliveryChange:
    """Records that changed together, and what is to be written of them."""

    __slots__ = ("batches", "is_effective", "letters")

    def __init__(self, *, is_effective: bool = False) -> None:
        self.batches: list[StateBatch] = []
        self.letters: list[DeadLetter] = []
        """Records that become dead letters once the change is written."""
        self.is_effective = is_effective
        """Whether it cannot be undone: a write of it that fails is repeated."""

    def __repr__(self) -> str:
        return f"DeliveryChange({self.batches})"


class StateWrite(NamedTuple):
    """A write to the share coordinator: call `on_written` with it."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    changes: tuple[DeliveryChange, ...]


class StateWrites:
    """Changes that are not written yet."""

    __slots__ = ("_queued", "_writing")

    def __init__(self) -> None:
        self._queued: list[DeliveryChange] = []
        self._writing: StateWrite | None = None

    def __repr__(self) -> str:
        return f"StateWrites({self._writing}, {len(self._queued)} queued)"

    @property
    def is_busy(self) -> bool:
        """Whether a change is not written yet."""
        return self._writing is not None or bool(self._queued)

    @property
    def under_way(self) -> tuple[DeliveryChange, ...]:
        """The changes whose write is under way."""
        return () if self._writing is None else self._writing.changes

    def add(self, change: DeliveryChange) -> None:
        self._queued.append(change)

    def take(
        self, state_epoch: int, leader_epoch: int, flight: InFlightPieces
    ) -> StateWrite | None:
        """The next write, where there is something to write and none is under way."""
        if self._writing is not None or not self._queued:
            return None
        changes, self._queued = tuple(self._queued), []
        batches = [batch for change in changes for batch in change.batches]
        final = (piece for piece in flight.pieces if piece.state.is_final)
        self._writing = StateWrite(
            state_epoch,
            leader_epoch,
            flight.start,
            total(final),
            combine((), batches, flight.start),
            changes,
        )
        return self._writing

    def end(self, write: StateWrite, *, failed: bool) -> tuple[DeliveryChange, ...]:
        """The write has ended: the changes that are kept now, or that are to be undone."""
        assert self._writing is write, f"{write} is not under way: {self!r}"
        self._writing = None
        if not failed:
            return write.changes
        self._queued[:0] = [change for change in write.changes if change.is_effective]
        return tuple(change for change in write.changes if not change.is_effective)
