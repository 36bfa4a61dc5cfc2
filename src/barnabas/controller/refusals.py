"""The last refused or delayed decisions with their reasons; they write no record, so they live here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

REFUSALS_MAX = 1000


class RefusalNote(NamedTuple):
    """`at_ms`: the date, milliseconds since 1970."""

    at_ms: int
    subject: str
    code: str
    reason: str


class Refusals:
    """A bounded list, newest last."""

    def __init__(self, wall_ms: Callable[[], int], most: int = REFUSALS_MAX) -> None:
        self._wall_ms = wall_ms
        self._notes: deque[RefusalNote] = deque(maxlen=most)

    def note(self, subject: str, code: str, reason: str) -> None:
        self._notes.append(RefusalNote(self._wall_ms(), subject, code, reason))

    def since(self, at_ms: int = 0) -> list[RefusalNote]:
        """Those noted at `at_ms` or later."""
        return [note for note in self._notes if note.at_ms >= at_ms]

    def __len__(self) -> int:
        return len(self._notes)
