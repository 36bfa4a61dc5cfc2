"""Server-side assignors: who shall have which partition (KIP-848).

An assignor is a generator over a :class:`~.spec.GroupSpec`: each step takes a few milliseconds at most, its
value are the targets. Source: ``group.assignor`` of Apache Kafka 4.3.
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
"""By the name in ``group.consumer.assignors``."""


def finish(steps: Steps) -> Targets:
    """All steps that are left, at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            targets: Targets = done.value
            return targets
