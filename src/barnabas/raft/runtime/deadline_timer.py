"""One wake-up for a deadline that moves: armed early rather than often.

A deadline that moves away leaves the wake-up where it is; when it rings too early, it is armed again.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.ports import Ports, Wakeup

NEVER = float("inf")


class DeadlineTimer:
    """Calls `on_due` when `deadline_ms()` has come."""

    def __init__(
        self, ports: Ports, deadline_ms: Callable[[], float], on_due: Callable[[], None]
    ) -> None:
        self._ports = ports
        self._deadline_ms = deadline_ms
        self._on_due = on_due
        self._wakeup: Wakeup | None = None
        self.at_ms = NEVER
        """When it rings; never where it is not armed."""
        self._closed = False

    def arm(self, due_ms: float) -> None:
        """The deadline is now earlier than `at_ms`. A caller that may have moved it compares the two."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        if not self._closed:
            self.at_ms = max(due_ms, self._ports.clock.now_ms())
            self._wakeup = self._ports.wakeups.call_at(self.at_ms, self._ring)

    def _ring(self) -> None:
        self._wakeup, self.at_ms = None, NEVER
        if self._closed:
            return
        due_ms = self._deadline_ms()
        if due_ms <= self._ports.clock.now_ms():
            self._on_due()
        elif due_ms != NEVER:
            self.arm(due_ms)

    def close(self) -> None:
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
