"""The replication quota: a rate in bytes per second, and the replicas that it throttles (KIP-73).

`Quota` is a leaky bucket that drains at the rate: copied bytes are added, and the quota is exceeded while
the bucket holds more than one window's worth. Over any long period the rate holds, whatever the size of
single responses; a burst is at most one window and one response. `Throttled` is the value of
``leader.replication.throttled.replicas`` or its follower's twin. Pure; times are milliseconds.

Source: Kafka's ``ReplicationQuotaManager``.
"""

from __future__ import annotations

from typing import Final

from barnabas.types import is_int32

UNLIMITED: Final = 2**63 - 1
"""Kafka's default of ``...replication.throttled.rate``: no throttle."""
WINDOW_MS: Final = 1000.0
"""replication.quota.window.size.seconds"""
ALL_REPLICAS = "*"


class Quota:
    """One rate, shared by all throttled replicas."""

    __slots__ = ("_at_ms", "_level", "rate")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self.rate = rate
        """Bytes per second; 0 lets nothing pass, `UNLIMITED` everything."""
        self._level = 0.0
        self._at_ms = 0.0

    def record(self, size: int, now_ms: float) -> None:
        """Record that `size` bytes were copied."""
        self._run_out(now_ms)
        self._level += size

    def is_exceeded(self, now_ms: float, promised: int = 0) -> bool:
        """Whether nothing more may be copied now; `promised` bytes are about to be copied and count, too."""
        if self.rate >= UNLIMITED:
            return False
        self._run_out(now_ms)
        return self.rate <= 0 or self._level + promised >= self._burst

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until the quota is not exceeded any more; one window if the rate is 0."""
        if not self.is_exceeded(now_ms):
            return 0.0
        if self.rate <= 0:
            return WINDOW_MS
        return max((self._level - self._burst) / self.rate * 1000, 1.0)

    @property
    def _burst(self) -> float:
        return self.rate * WINDOW_MS / 1000

    def _run_out(self, now_ms: float) -> None:
        passed = max(now_ms - self._at_ms, 0.0)
        self._at_ms = now_ms
        self._level = max(self._level - min(self.rate, UNLIMITED) * passed / 1000, 0.0)

    def __repr__(self) -> str:
        return f"Quota({self.rate} bytes/s, {self._level:.0f} bytes in it)"


class Throttled:
    """The partitions of one topic whose replica on one broker is throttled."""

    __slots__ = ("every", "indexes")

    def __init__(self, text: str, broker: int) -> None:
        """`text` is ``*`` or ``partition:broker`` entries. Malformed entries are ignored: values are
        validated when they are set."""
        entries = [part.strip() for part in text.split(",")]
        self.every = ALL_REPLICAS in entries
        found = (entry.partition(":") for entry in entries)
        self.indexes = frozenset(
            int(index)
            for index, _, at in found
            if is_int32(index) and is_int32(at) and int(at) == broker
        )

    def __contains__(self, index: int) -> bool:
        return self.every or index in self.indexes

    def __repr__(self) -> str:
        return f"Throttled({ALL_REPLICAS if self.every else sorted(self.indexes)})"
