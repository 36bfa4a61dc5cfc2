"""Batches of offsets with one delivery state, and the combination of lists of them.

Invariant: a combined list is sorted, its batches do not overlap, and neighbours differ. If batches
overlap, the one with the larger delivery count wins; if the counts are equal, the one with the
larger state.

Source: ``PersisterStateBatchCombiner`` and ``RecordState`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

NO_OFFSET = -1


class DeliveryState(IntEnum):
    """The delivery state of a record; the numbers are those of Kafka's records."""

    AVAILABLE = 0
    ACQUIRED = 1
    """A member holds it; this state is never written."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """It is not delivered again, and its dead letter is not known to be written yet (KIP-1191)."""
    ARCHIVED = 4
    """It is not delivered again: rejected, delivered too often, or gone from the log."""

    @property
    def is_final(self) -> bool:
        return self is DeliveryState.ACKNOWLEDGED or self is DeliveryState.ARCHIVED


class StateBatch(NamedTuple):
    """Offsets `first` to `last` with one state and one delivery count."""

    first: int
    last: int
    state: int
    deliveries: int


def combine(
    known: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Combine both lists, without offsets before `start_offset` (-1: all stay)."""
    return _joined(_pieces(sorted(_from(start_offset, (*known, *added)))))


def _from(start_offset: int, batches: Iterable[StateBatch]) -> Iterable[StateBatch]:
    for batch in batches:
        if batch.last >= start_offset and batch.first <= batch.last:
            yield batch if batch.first >= start_offset else batch._replace(first=start_offset)


def _pieces(ordered: list[StateBatch]) -> Iterable[StateBatch]:
    """Parts that do not overlap, in the order of offsets; `ordered` is sorted by first offset."""
    open_batches: list[tuple[int, int, int]] = []
    """(-deliveries, -state, last) of the batches that have begun; the first one wins."""
    begun, position = 0, 0
    while begun < len(ordered) or open_batches:
        while open_batches and open_batches[0][2] < position:
            heappop(open_batches)
        if not open_batches:
            if begun == len(ordered):
                return
            position = max(position, ordered[begun].first)
        while begun < len(ordered) and ordered[begun].first <= position:
            batch = ordered[begun]
            heappush(open_batches, (-batch.deliveries, -batch.state, batch.last))
            begun += 1
        while open_batches and open_batches[0][2] < position:
            heappop(open_batches)
        if not open_batches:
            continue
        deliveries, state, last = open_batches[0]
        end = last if begun == len(ordered) else min(last, ordered[begun].first - 1)
        yield StateBatch(position, end, -state, -deliveries)
        position = end + 1


def _joined(pieces: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    joined: list[StateBatch] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.last + 1 == piece.first
            and (before.state, before.deliveries) == (piece.state, piece.deliveries)
        ):
            joined[-1] = before._replace(last=piece.last)
        else:
            joined.append(piece)
    return tuple(joined)
