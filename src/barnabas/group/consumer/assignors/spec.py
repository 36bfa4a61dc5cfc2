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
"""Computes targets, a few milliseconds with each step."""
WORK_PER_STEP = 4_000
"""The number of partitions looked at in one step. An assignor that compares members counts each partition
once for each member."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """Members in a fixed order; topics that exist only."""

    subscriptions: Mapping[str, frozenset[Uuid]]
    """The topics to which each member subscribes, by member id."""
    previous: Mapping[str, Target]
    """The target that each member had so far, by member id."""
    partitions: Mapping[Uuid, int]
    """The number of partitions of each topic."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len(set(self.subscriptions.values())) <= 1

    @property
    def work(self) -> int:
        """How much there is to do, in the unit of `WORK_PER_STEP`."""
        partitions = sum(self.partitions.values())
        return partitions if self.is_homogeneous else partitions * len(self.subscriptions)

    def subscribers(self) -> dict[Uuid, list[str]]:
        """The members that subscribe to each topic, in their order."""
        return by_topic(
            (topic_id, member_id)
            for member_id, topics in self.subscriptions.items()
            for topic_id in topics
        )
