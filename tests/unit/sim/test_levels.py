"""Clusters that begin at an old metadata.version, as seeds draw them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from barnabas.metadata.features import DIRECTORIES_SINCE, MINIMUM_METADATA_VERSION
from barnabas.ports import Rng
from barnabas.sim.swarm import draw
from barnabas.sim.workload.administration import NOT_OLD

SEEDS = range(1, 401)


def generators(seed: int) -> Callable[[str], Rng]:
    return lambda concern: random.Random(f"{seed}/{concern}")


@pytest.mark.slow
def test_some_clusters_are_old_and_have_what_their_level_gives() -> None:
    drawn = [draw(generators(seed)) for seed in SEEDS]
    old = [swarm for swarm in drawn if swarm.topology.first_level < NOT_OLD]
    assert len(drawn) / 4 < len(old) < len(drawn) / 3
    assert min(swarm.topology.first_level for swarm in old) == MINIMUM_METADATA_VERSION
    for swarm in old:
        topology = swarm.topology
        assert topology.directories == 1 or topology.first_level >= DIRECTORIES_SINCE
    climbing = [s for s in old if "upgrader" in s.workload.names]
    assert len(old) / 2 < len(climbing) < len(old)
    assert not any("upgrader" in s.workload.names for s in drawn if s not in old)
