"""Quorums of three and five under random faults keep every promise, seed by seed."""

from __future__ import annotations

import pytest

from tests.unit.raft.chaos import Chaos
from tests.unit.raft.quorum_world import Quorum


@pytest.mark.parametrize("seed", range(12))
def test_a_quorum_under_random_faults_keeps_its_promises(seed: int) -> None:
    chaos = Chaos(Quorum(seed, voters=5 if seed % 4 == 3 else 3, observers=seed % 2))
    chaos.play()
    assert chaos.totals["elections"] > 1
    assert chaos.totals["committed"] > 50
