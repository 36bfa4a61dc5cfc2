"""One wake-up for a deadline that moves: armed early rather than often.

A deadline that moves away leaves the wake-up where it is; when it rings too early, it is armed anew.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.ports import Ports, Wakeup

NEVER = float("inf")


class Alarm:
    """Calls `on_due` when `deadline_ms()` has come."""

    def __init__(
        self, ports: Ports, deadline_ms: Callable[[], float], on_due: Callable[[], None]
    ) -> None:
        self._ports = ports
        self._deadline_ms = deadline_ms
        self._on_due = on_due
        self._wakeup: Wakeup | None = None
        self._at_ms = NEVER
        self._closed = False

    def arm(self) -> None:
        """After anything that may have moved the deadline."""
        due = self._deadline_ms()
        if self._wakeup is not None:
            if self._at_ms <= due:
                return
            self._wakeup.cancel()
            self._wakeup = None
        if due != NEVER and not self._closed:
            self._at_ms = max(due, self._ports.clock.now_ms())
            self._wakeup = self._ports.wakeups.call_at(self._at_ms, self._ring)

    def _ring(self) -> None:
        self._wakeup = None
        if self._closed:
            return
        if self._deadline_ms() <= self._ports.clock.now_ms():
            self._on_due()
        else:
            self.arm()

    def close(self) -> None:
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
