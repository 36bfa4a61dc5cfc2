"""The offsets of a share partition that are under way, as pieces of equal state.

A piece is cut where a part of it changes, and joined with a neighbour that has become equal. So
memory grows with the number of different states, not of records.

Invariant: pieces are sorted and leave no offset out; together they reach from `start` to before `end`.

Source: ``InFlightBatch`` and ``InFlightState`` of Apache Kafka 4.3, which keep a state per offset once a
batch is cut.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.share.delivery import DeliveryState

NO_MEMBER = ""
UNLOCKED_MS = math.inf


class Piece:
    """Offsets `first` to `last` with one state."""

    __slots__ = ("deliveries", "first", "last", "lock_ms", "member", "pending", "span", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: DeliveryState,
        deliveries: int,
        member: str = NO_MEMBER,
        lock_ms: float = UNLOCKED_MS,
        pending: object | None = None,
        span: int = 0,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        """How often it was delivered, including the delivery under way."""
        self.member = member
        """The member that holds it, or that held it when the change under way began."""
        self.lock_ms = lock_ms
        """The time at which its lock ends; infinite if no member holds it."""
        self.pending = pending
        """The change whose write is under way. `state` is the new state already; a failed write
        restores the old one. Or the dead letter that is written before the piece is archived."""
        self.span = span or last - first + 1
        """The number of offsets in its first delivery; later deliveries are parts of it."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        held = f" by {self.member}" if self.member else ""
        return f"Piece({self.first}-{self.last} {self.state.name} x{self.deliveries}{held})"

    @property
    def is_available(self) -> bool:
        return self.state is DeliveryState.AVAILABLE and self.pending is None

    @property
    def is_settled(self) -> bool:
        """Whether the state is final and written."""
        return self.state.is_final and self.pending is None

    def equals(self, other: Piece) -> bool:
        """Whether both have the same state, so that neighbours can be joined."""
        return (
            self.state is other.state
            and self.pending is other.pending
            and self.lock_ms == other.lock_ms
            and self.member == other.member
            and self.deliveries == other.deliveries
        )

    def cut(self, last: int) -> Piece:
        """End this piece at `last`, and return the rest as a piece of its own."""
        rest = Piece(
            last + 1,
            self.last,
            self.state,
            self.deliveries,
            self.member,
            self.lock_ms,
            self.pending,
            self.span,
        )
        self.last = last
        return rest


class InFlightCounts(NamedTuple):
    """Counts of what is under way."""

    offsets: int
    pieces: int
    acquired: int
    """The number of offsets that members hold."""
    delivered: dict[int, int]
    """The number of offsets that are not final, by how often they were delivered, which was once at least."""


class InFlightPieces:
    """All pieces of one share partition."""

    __slots__ = ("_pieces", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        """The first offset whose delivery is not final."""
        self.end = start
        """The first offset that was never fetched."""
        self._pieces: list[Piece] = []

    def __repr__(self) -> str:
        return f"InFlightPieces({self.start} to {self.end} in {len(self._pieces)} pieces)"

    def __len__(self) -> int:
        """The number of pieces."""
        return len(self._pieces)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces in order; callers only read them."""
        return tuple(self._pieces)

    @property
    def size(self) -> int:
        """The number of offsets under way."""
        return self.end - self.start

    def tally(self) -> InFlightCounts:
        acquired = 0
        delivered: dict[int, int] = {}
        for piece in self._pieces:
            if piece.state is DeliveryState.ACQUIRED:
                acquired += len(piece)
            if piece.deliveries and not piece.state.is_final:
                delivered[piece.deliveries] = delivered.get(piece.deliveries, 0) + len(piece)
        return InFlightCounts(self.size, len(self), acquired, dict(sorted(delivered.items())))

    def add(self, piece: Piece) -> None:
        """Add a piece of new offsets, which begins at `end`."""
        assert piece.first == self.end, f"{piece!r} leaves a gap: {self!r}"
        self._pieces.append(piece)
        self.end = piece.last + 1

    def begin_at(self, offset: int) -> None:
        """Drop the offsets before `offset`."""
        pieces = self._pieces
        at = self._index(offset)
        if at < len(pieces) and pieces[at].first < offset <= pieces[at].last:
            pieces[at].first = offset
        del pieces[:at]
        if pieces and pieces[0].last < offset:
            del pieces[0]
        self.start = max(self.start, offset)
        self.end = max(self.end, self.start)

    def over(self, first: int, last: int) -> list[Piece]:
        """The pieces that have an offset in `first` to `last`, uncut."""
        pieces, found = self._pieces, []
        for at in range(self._index(first), len(pieces)):
            if pieces[at].first > last:
                break
            if pieces[at].last >= first:
                found.append(pieces[at])
        return found

    def between(self, first: int, last: int) -> list[Piece]:
        """The pieces of exactly `first` to `last`; a piece that reaches farther is cut."""
        self._cut_before(first)
        self._cut_before(last + 1)
        return self.over(first, last)

    def _cut_before(self, offset: int) -> None:
        at = self._index(offset)
        if at < len(self._pieces):
            piece = self._pieces[at]
            if piece.first < offset <= piece.last:
                self._pieces.insert(at + 1, piece.cut(offset - 1))

    def _index(self, offset: int) -> int:
        """The index of the piece that has `offset`; the first piece if none has it."""
        return max(bisect_right(self._pieces, offset, key=_first) - 1, 0)

    def join(self) -> None:
        """Join neighbours that have become equal, and drop the settled pieces at the start."""
        joined: list[Piece] = []
        for piece in self._pieces:
            if not joined and piece.is_settled:
                self.start = piece.last + 1
            elif joined and joined[-1].equals(piece):
                joined[-1].last = piece.last
                joined[-1].span = max(joined[-1].span, piece.span)
            else:
                joined.append(piece)
        self._pieces = joined
        self.end = max(self.end, self.start)

    def validate(self) -> None:
        """Check the invariant. Raises AssertionError."""
        expected = self.start
        for piece in self._pieces:
            assert piece.first == expected <= piece.last, f"{piece!r} in {self!r}"
            held = piece.state is DeliveryState.ACQUIRED
            assert held == bool(piece.member) or piece.pending is not None, repr(piece)
            expected = piece.last + 1
        assert expected == self.end, repr(self)


def _first(piece: Piece) -> int:
    return piece.first


def total(pieces: Iterable[Piece]) -> int:
    """The number of offsets in the pieces."""
    return sum(map(len, pieces))
