"""The last events of this broker's controllers, newest last; a process that ends forgets them.

Under a quorum the metadata log tells events. Znodes keep no history, so each broker keeps what it decided
while it was the controller, also after it resigned, and DescribeCluster tells it (`barnabas cluster events`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

EVENTS_MAX = 10_000


class ControllerStep(NamedTuple):
    """`number` counts from 0 since this process began; `at_ms`: the date, milliseconds since 1970. The rest
    is as in `barnabas.metadata.views.cluster_events.ClusterEvent`."""

    number: int
    at_ms: int
    kind: str
    subject: str
    change: str
    reason: str


class StepLog:
    """A bounded list."""

    def __init__(self, wall_ms: Callable[[], int], most: int = EVENTS_MAX) -> None:
        self._wall_ms = wall_ms
        self._steps: deque[ControllerStep] = deque(maxlen=most)
        self._count = 0

    def note(self, kind: str, subject: str, change: str, reason: str = "") -> None:
        step = ControllerStep(self._count, self._wall_ms(), kind, subject, change, reason)
        self._steps.append(step)
        self._count += 1

    def after(self, number: int) -> list[ControllerStep]:
        """Those noted after the one of this number. A number that is not reached yet is of an earlier
        process: then all."""
        if number >= self._count:
            number = -1
        return [step for step in self._steps if step.number > number]

    def __len__(self) -> int:
        return len(self._steps)
