"""The input and the result of an assignor."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.group.consumer.member import Target
from barnabas.types import Uuid, by_topic

Targets: TypeAlias = dict[str, dict[Uuid, frozenset[int]]]
"""The partitions of each member, by member id."""
Steps: TypeAlias = Generator[None, None, Targets]
"""Computes targets; each step takes a few milliseconds."""
WORK_PER_STEP = 4_000
"""The number of partitions that one step looks at. An assignor that compares members counts each
partition once for each member."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The input of an assignor: members in a fixed order, and existing topics."""

    subscriptions: Mapping[str, frozenset[Uuid]]
    """The topics to which each member subscribes, by member id."""
    previous: Mapping[str, Target]
    """The last target of each member, by member id."""
    partitions: Mapping[Uuid, int]
    """The number of partitions of each topic."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len(set(self.subscriptions.values())) <= 1

    @property
    def work(self) -> int:
        """The size of the computation, in the unit of `WORK_PER_STEP`."""
        partitions = sum(self.partitions.values())
        return partitions if self.is_homogeneous else partitions * len(self.subscriptions)

    def subscribers(self) -> dict[Uuid, list[str]]:
        """The members that subscribe to each topic, in their order."""
        return by_topic(
            (topic_id, member_id)
            for member_id, topics in self.subscriptions.items()
            for topic_id in topics
        )
