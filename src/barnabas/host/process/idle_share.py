"""The share of time in which a node's loop waits, under the names that Kafka has for it."""

from __future__ import annotations

NAMES = (
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
)
WINDOW_S = 15.0


class IdleShare:
    """The share over one to two windows before the last question."""

    def __init__(self, now_s: float, busy_s: float) -> None:
        """`busy_s`: the seconds of all turns so far."""
        self._older = self._newer = (now_s, busy_s)
        """Instants, with the busy seconds until then."""

    def share(self, now_s: float, busy_s: float) -> float:
        """A number from 0 (always busy) to 1."""
        if busy_s < self._newer[1]:  # the loop's times were reset
            self._older = self._newer = (now_s, busy_s)
        if now_s - self._newer[0] >= WINDOW_S:
            self._older, self._newer = self._newer, (now_s, busy_s)
        since_s, busy_before_s = self._older
        if now_s <= since_s:
            return 1.0
        return min(max(1 - (busy_s - busy_before_s) / (now_s - since_s), 0.0), 1.0)
