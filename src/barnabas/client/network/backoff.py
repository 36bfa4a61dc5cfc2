"""The pauses between tries: each is twice the one before, up to a most."""

from __future__ import annotations

BACKOFF_MS = 20.0
BACKOFF_MS_MAX = 500.0


class RetryBackoff:
    """The pauses of one operation. Source: KIP-580, without the chance."""

    __slots__ = ("next_ms",)

    def __init__(self) -> None:
        self.next_ms = BACKOFF_MS

    def __repr__(self) -> str:
        return f"RetryBackoff({self.next_ms:.0f} ms)"

    def take(self) -> float:
        """The next pause in ms; the one after it is longer."""
        pause_ms = self.next_ms
        self.next_ms = min(pause_ms * 2, BACKOFF_MS_MAX)
        return pause_ms
