"""Outside judges of a simulated cluster, one file per invariant of ``docs/invariants.md``.

A checker is a class with `check(cluster, node)`, called with the node that the last event ran on; it keeps
what it saw, so that it looks only at what is new. It raises :class:`barnabas.sim.history.Violation`.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.sim.checkers.high_watermark import HighWatermarkNeverGoesBack
from barnabas.sim.checkers.images import EqualOffsetEqualImage
from barnabas.sim.checkers.leader_in_isr import LeaderInIsr
from barnabas.sim.checkers.partition_leaders import OneLeaderPerPartitionEpoch
from barnabas.sim.checkers.quorum_leaders import OneLeaderPerQuorumEpoch
from barnabas.sim.cluster import SimCluster, SimNode


class Checker(Protocol):
    def check(self, cluster: SimCluster, node: SimNode) -> None: ...


def all_checkers() -> list[Checker]:
    """A fresh one of each, for one run."""
    return [
        OneLeaderPerQuorumEpoch(),
        OneLeaderPerPartitionEpoch(),
        LeaderInIsr(),
        EqualOffsetEqualImage(),
        HighWatermarkNeverGoesBack(),
    ]
