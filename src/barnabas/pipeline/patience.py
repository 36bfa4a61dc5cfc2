"""How long a pipeline keeps trying what a new leader, a restarted node or time can cure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from barnabas.client.network.backoff import RetryBackoff
from barnabas.pipeline.errors import ClusterUnreachableError

TRY_MS_MIN = 1_000.0
"""The least time of a request, however little is left of a patience."""


def now_ms() -> float:
    return time.monotonic() * 1000


@dataclass(slots=True)
class Patience:
    """How long to keep trying, and how long to wait before the next try."""

    limit_ms: float
    began_ms: float = field(default_factory=now_ms)
    backoff: RetryBackoff = field(default_factory=RetryBackoff)
    last_error: str = "no answer"

    @property
    def left_ms(self) -> float:
        return self.limit_ms - (now_ms() - self.began_ms)

    def try_ms(self, most_ms: float) -> float:
        """The time-out of the next try: what is left, at most `most_ms`."""
        return min(most_ms, max(self.left_ms, TRY_MS_MIN))

    def wait(self, error: object) -> None:
        """Back off. Raises `ClusterUnreachableError` when the time is over."""
        self.last_error = str(error)
        left_ms = self.left_ms
        if left_ms <= 0:
            raise gave_up(self.limit_ms, self.last_error)
        time.sleep(min(self.backoff.take(), left_ms) / 1000)

    def renew(self) -> None:
        """The operation made progress: restart its time limit and its backoff."""
        self.began_ms, self.backoff = now_ms(), RetryBackoff()


def gave_up(limit_ms: float, why: object) -> ClusterUnreachableError:
    return ClusterUnreachableError(f"gave up after {limit_ms / 1000:.0f} s: {why}")
