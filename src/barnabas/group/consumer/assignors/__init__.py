"""Server-side assignors: they decide which member gets which partition (KIP-848).

An assignor is a generator function of a :class:`~.spec.GroupSpec`. A step of the generator takes a few
milliseconds at most; its return value is the target assignment. Source: ``group.assignor`` of Apache Kafka
4.3.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.group.consumer.assignors.range import assign_range
from barnabas.group.consumer.assignors.spec import GroupSpec, Steps, Targets
from barnabas.group.consumer.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Callable[[GroupSpec], Steps]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""Assignors by their names in ``group.consumer.assignors``."""


def finish(steps: Steps) -> Targets:
    """Run the remaining steps without a pause, and return the target assignment."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            targets: Targets = done.value
            return targets
