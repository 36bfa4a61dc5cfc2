"""Dead letters of a share partition that are not written yet.

Records of an open letter are ARCHIVING, and that is kept. Invariant: their pieces name the letter as what
they wait for.

Source: ``SharePartition.initiateDLQAndArchive`` and ``maybeResumeDlqArchiving`` of Apache Kafka 4.4;
KIP-1191.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.share.in_flight import InFlightPieces, Piece
from barnabas.share.delivery import DeliveryState, StateBatch

REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."
"""Why a record becomes a dead letter, as its headers say it."""


class DeadLetter:
    """Offsets `first` to `last`, which become dead letters for one reason."""

    __slots__ = ("deliveries", "first", "last", "why")

    def __init__(self, first: int, last: int, deliveries: int, why: str) -> None:
        self.first = first
        self.last = last
        self.deliveries = deliveries
        self.why = why

    def __repr__(self) -> str:
        return f"DeadLetter({self.first}-{self.last} x{self.deliveries}: {self.why})"

    def is_before(self, first: int, deliveries: int, why: str) -> bool:
        """Whether offsets from `first` on are more of the same."""
        return self.last + 1 == first and (self.deliveries, self.why) == (deliveries, why)


def add_letter(letters: list[DeadLetter], piece: Piece, why: str) -> None:
    """The records of `piece` become dead letters: the last of `letters` gets them, or a new one."""
    if letters and letters[-1].is_before(piece.first, piece.deliveries, why):
        letters[-1].last = piece.last
    else:
        letters.append(DeadLetter(piece.first, piece.last, piece.deliveries, why))


class OpenLetters:
    """All of them."""

    __slots__ = ("_due", "_flight", "_open")

    def __init__(self, flight: InFlightPieces) -> None:
        self._flight = flight
        self._open: dict[DeadLetter, None] = {}
        self._due: list[DeadLetter] = []

    def __repr__(self) -> str:
        return f"OpenLetters({list(self._open)})"

    def __len__(self) -> int:
        return len(self._open)

    def open(self, letters: Iterable[DeadLetter]) -> None:
        """The states of their records are kept: the letters may be written."""
        for letter in letters:
            for piece in self._flight.between(letter.first, letter.last):
                assert piece.state is DeliveryState.ARCHIVING, f"{piece!r} of {letter}"
                piece.pending = letter
            self._open[letter] = None
            self._due.append(letter)

    def resume(self, deliveries_max: int) -> None:
        """Begin again with the letters of an earlier leader, who may have written some of them."""
        letters: list[DeadLetter] = []
        for piece in self._flight.pieces:
            if piece.state is DeliveryState.ARCHIVING:
                spent = piece.deliveries >= deliveries_max
                add_letter(letters, piece, DELIVERED_TOO_OFTEN if spent else REJECTED)
        self.open(letters)

    def take(self) -> list[DeadLetter]:
        """The letters to write, which `close` gets once they are written or given up."""
        due, self._due = self._due, []
        return due

    def close(self, letter: DeadLetter) -> list[StateBatch]:
        """Archive the records of `letter`: what is to be written of them."""
        del self._open[letter]
        batches: list[StateBatch] = []
        for piece in self._flight.over(letter.first, letter.last):
            if piece.pending is letter:
                piece.pending, piece.state = None, DeliveryState.ARCHIVED
                batches.append(StateBatch(piece.first, piece.last, piece.state, piece.deliveries))
        return batches
