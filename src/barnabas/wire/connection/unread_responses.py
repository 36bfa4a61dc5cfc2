"""Responses that peers do not read: the bound on all connections of a node, and who waits for room.

A connection whose peer does not read is *stalled*: its next request is served when its responses were taken,
or when all connections together keep less than `limits.UNSENT_BYTES_TOTAL`. The network does not report when
bytes are taken, so stalled connections are looked at again and again, for a slice of a turn at a time.

Invariant: above the bound, a connection keeps at most the responses to one request more, and a consumer's
fetch is answered with one batch (`broker.fetch`).
"""

from __future__ import annotations

from typing import Protocol

from barnabas import limits
from barnabas.ports import Ports

STALL_CHECK_MS = 10.0
"""Interval of the checks whether a peer has read the responses that were sent to it."""


class Stalled(Protocol):
    """A connection."""

    id: int

    def continue_reading(self) -> None:
        """Serve what waits, as far as the limits allow. Stalls again where they do not."""


class UnreadResponses:
    """The stalled connections of one listener."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._stalled: dict[int, Stalled] = {}
        self._is_armed = False
        self.kept_bytes = 0
        """Responses that wait for an earlier one of their connection, and are not with the network yet."""

    def __len__(self) -> int:
        return len(self._stalled)

    @property
    def are_too_many(self) -> bool:
        """Whether only connections without unread responses are served."""
        return self._ports.network.unsent_bytes + self.kept_bytes > limits.UNSENT_BYTES_TOTAL

    def stall(self, connection: Stalled) -> None:
        """The peer does not read its responses: check again until it has."""
        self._stalled[connection.id] = connection
        self._arm(STALL_CHECK_MS)

    def forget(self, connection: Stalled) -> None:
        self._stalled.pop(connection.id, None)

    def _arm(self, after_ms: float) -> None:
        if not self._is_armed:
            self._is_armed = True
            at_ms = self._ports.clock.now_ms() + after_ms
            self._ports.wakeups.call_at(at_ms, self._check)

    def _check(self) -> None:
        self._is_armed = False
        now_ms = self._ports.clock.now_ms
        until_ms = now_ms() + limits.SLICE_MS
        waiting, self._stalled = self._stalled, {}
        for key, connection in list(waiting.items()):
            waiting.pop(key, None)
            connection.continue_reading()
            if now_ms() >= until_ms:
                break
        if waiting:  # the others come first next time
            self._stalled = waiting | self._stalled
            self._arm(0.0)
