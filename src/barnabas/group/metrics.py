"""What the group coordinators of a broker count: `barnabas cluster metrics --broker`, JMX in Kafka.

Rebalances are counted as they happen, groups and offsets on request.

Source: Kafka's ``GroupCoordinatorMetrics`` and ``GroupCoordinatorMetricsShard``.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup

_S = GroupState
CLASSIC_STATES = (
    _S.PREPARING_REBALANCE,
    _S.COMPLETING_REBALANCE,
    _S.STABLE,
    _S.DEAD,
    _S.EMPTY,
)
CONSUMER_STATES = (_S.EMPTY, _S.ASSIGNING, _S.RECONCILING, _S.STABLE, _S.DEAD)


class GroupCounters:
    """Since the process began, over all coordinators that the broker had."""

    __slots__ = ("classic_rebalances", "consumer_rebalances")

    def __init__(self) -> None:
        self.classic_rebalances = 0
        """Classic groups that became stable with a new assignment."""
        self.consumer_rebalances = 0
        """New epochs of consumer groups."""

    def __repr__(self) -> str:
        return (
            f"GroupCounters({self.classic_rebalances} classic, {self.consumer_rebalances} consumer)"
        )


class GroupTally:
    """Groups by type and state, and offsets, over the partitions that were added."""

    __slots__ = ("classic", "consumer", "offsets")

    def __init__(self) -> None:
        self.classic = dict.fromkeys(CLASSIC_STATES, 0)
        self.consumer = dict.fromkeys(CONSUMER_STATES, 0)
        self.offsets = 0

    def __repr__(self) -> str:
        return f"GroupTally({sum(self.classic.values())} classic, {sum(self.consumer.values())} consumer)"

    def add(self, groups: Iterable[ClassicGroup | ConsumerGroup], offsets: int) -> None:
        """Count the committed groups of one partition, and the offsets committed there."""
        self.offsets += offsets
        for group in groups:
            if isinstance(group, ClassicGroup):
                self.classic[group.state] += 1
            else:
                self.consumer[group.committed_state()] += 1
