"""Server-side assignors: who shall have which partition (KIP-848).

An assignor is a plain function of a :class:`~.spec.GroupSpec`. Source: ``group.assignor`` of Apache
Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.group.consumer.assignors.range import assign_range
from barnabas.group.consumer.assignors.spec import GroupSpec, Targets
from barnabas.group.consumer.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Callable[[GroupSpec], Targets]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""By the name in ``group.consumer.assignors``."""
