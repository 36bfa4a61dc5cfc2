"""The clock of a node whose date a test steps."""

from __future__ import annotations

from barnabas.host.programs.program_ports import HostClock


class SteppedClock(HostClock):
    """``ports.Clock`` whose date is `step_ms` off; its monotonic clock is right."""

    step_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.step_ms
