"""How many audit events a node writes per second; those beyond are counted."""

from __future__ import annotations

SECOND_MS = 1000.0


class EventRate:
    """At most `most` events in each second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._began_ms = float("-inf")
        self._written = 0
        self._left_out = 0

    def left_out(self, now_ms: float) -> int:
        """How many were left out in a second that is over; each is reported once."""
        if now_ms - self._began_ms < SECOND_MS:
            return 0
        count, self._began_ms, self._written, self._left_out = self._left_out, now_ms, 0, 0
        return count

    def admits(self) -> bool:
        """Whether one more is written in this second; ask `left_out` first."""
        if self._written >= self._most:
            self._left_out += 1
            return False
        self._written += 1
        return True
