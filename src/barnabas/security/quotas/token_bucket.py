"""A token bucket: what a limit per second leaves to be used now, and how long until it leaves something.

What is used is taken at once, so the bucket may be in debt; a debt is waited for. Unused tokens are kept up
to `burst_s` seconds' worth. Over any time t at most ``limit * (t + burst_s)`` and one debt is used.

Source: Kafka's ``TokenBucket`` (KIP-599). Kafka measures bytes and request time by ``Rate`` instead, over
``quota.window.num`` windows, which lets ten seconds' worth pass at once.
"""

from __future__ import annotations

MS_PER_S = 1000.0


class TokenBucket:
    """Begins full."""

    __slots__ = ("_at_ms", "burst_s", "limit", "tokens")

    def __init__(self, limit: float, burst_s: float, now_ms: float) -> None:
        assert limit > 0 and burst_s > 0
        self.limit = limit
        """Per second."""
        self.burst_s = burst_s
        self.tokens = limit * burst_s
        """At the instant of the last call; negative is a debt."""
        self._at_ms = now_ms

    def take(self, amount: float, now_ms: float) -> float:
        """Use `amount`; returns how many milliseconds the user waits for its debt."""
        self._fill(now_ms)
        self.tokens -= amount
        return self.wait_ms(now_ms)

    def wait_ms(self, now_ms: float, more: float = 0.0) -> float:
        """How long until there is no debt, if `more` were used now."""
        self._fill(now_ms)
        return max(more - self.tokens, 0.0) / self.limit * MS_PER_S

    def change(self, limit: float, now_ms: float) -> None:
        """Another limit from now on; a debt stays, what was saved is bounded by the new limit."""
        assert limit > 0
        self._fill(now_ms)
        self.limit = limit
        self.tokens = min(self.tokens, limit * self.burst_s)

    def is_full(self, now_ms: float) -> bool:
        """Whether nothing was used for so long that a new bucket is the same."""
        self._fill(now_ms)
        return self.tokens >= self.limit * self.burst_s

    def _fill(self, now_ms: float) -> None:
        if now_ms > self._at_ms:
            more = (now_ms - self._at_ms) / MS_PER_S * self.limit
            self.tokens = min(self.tokens + more, self.limit * self.burst_s)
            self._at_ms = now_ms

    def __repr__(self) -> str:
        return f"TokenBucket({self.limit:g}/s, {self.tokens:.0f} left)"
