"""Holds back a replica that enters and leaves an ISR again and again.

Every change of an ISR costs a record and a wait of the leader. A replica at the edge of the lag
bound would cause one every few seconds, and gain nothing. It may leave and rejoin a few times; then
it waits, longer each time. It never waits if the ISR is below min ISR or a reassignment adds the
replica: availability comes first. The counts are volatile: a new controller starts from zero.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.image.topic import ORDINARY, Topic

FALLS_ALLOWED = 4
WINDOW_MS = 120_000.0
HOLD_MS = 5_000.0
HOLD_MS_MAX = 60_000.0
ENTRIES_MAX = 50_000


class IsrBackoff:
    """Remembers when replicas lately fell out of ISRs."""

    def __init__(self, cluster: ControllerContext, now_ms: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._falls: dict[tuple[int, int, int], list[float]] = {}

    def fell(self, topic: Topic, index: int, broker: int) -> None:
        """The leader removed `broker` from the ISR because it fell behind."""
        now_ms = self._now_ms()
        key = (topic.slot, index, broker)
        falls = [at for at in self._falls.pop(key, ()) if at > now_ms - WINDOW_MS]
        falls.append(now_ms)
        self._falls[key] = falls
        if len(self._falls) > ENTRIES_MAX:
            del self._falls[next(iter(self._falls))]

    def why_held(self, topic: Topic, index: int, broker: int) -> str | None:
        """The reason why `broker` may not enter the ISR yet, as a sentence; None if it may."""
        falls = self._falls.get((topic.slot, index, broker))
        if falls is None or broker in topic.rare.get(index, ORDINARY).adding:
            return None
        now_ms = self._now_ms()
        recent = [at for at in falls if at > now_ms - WINDOW_MS]
        if len(recent) <= FALLS_ALLOWED:
            return None
        enough = self._cluster.rules(topic).effective_min_isr(len(topic.replicas[index]))
        if len(topic.isr[index]) < enough:
            return None
        hold = min(HOLD_MS * (len(recent) - FALLS_ALLOWED), HOLD_MS_MAX)
        left = recent[-1] + hold - now_ms
        if left <= 0:
            return None
        return (
            f"{broker} left the ISR {len(recent)} times within {WINDOW_MS / 1000:.0f} s and is held"
            f" back for another {left / 1000:.1f} s"
        )

    def clear(self) -> None:
        self._falls.clear()
