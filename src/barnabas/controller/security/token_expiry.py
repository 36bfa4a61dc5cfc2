"""Removes expired delegation tokens, every ``delegation.token.expiry.check.interval.ms``.

Source: Kafka's ``QuorumController.sweepExpiredDelegationTokens``.
"""

from __future__ import annotations

from barnabas.controller.duties import DutyController
from barnabas.controller.security.delegation_tokens import (
    REMOVED_PER_DECISION,
    remove_expired,
    supported,
)

BUSY_MS = 100.0
"""The delay between two decisions of one check."""


class TokenExpiry:
    """Removes expired tokens, as a duty of the active controller."""

    def __init__(self, controller: DutyController, *, enabled: bool) -> None:
        self._controller = controller
        self._interval_ms = controller.config.int_value("delegation.token.expiry.check.interval.ms")
        self._enabled = enabled
        self._due_ms: float | None = None

    def on_activation(self) -> None:
        if self._enabled:
            self._due_ms = self._controller.now_ms() + self._interval_ms
            self._controller.arm(self._due_ms)

    def clear(self) -> None:
        self._due_ms = None

    def deadline_ms(self) -> float | None:
        return self._due_ms

    def on_time(self, now_ms: float) -> None:
        if self._due_ms is None or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + self._interval_ms
        controller = self._controller
        if not supported(controller.cluster):
            return
        decision = remove_expired(controller.cluster, controller.ports.clock.wall_ms())
        if decision.size:
            controller.commit(decision)
        if decision.size == REMOVED_PER_DECISION:
            self._due_ms = now_ms + min(BUSY_MS, self._interval_ms)
