"""Quorums of three and five under random faults keep every promise, seed by seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.raft.chaos import Chaos
from tests.unit.raft.quorum_world import Quorum

TIGHT = {
    "bytes_between_snapshots": 3_000,
    "retention_bytes": 4_000,
    "segment_bytes": 4_096,
    "fetch_snapshot_bytes_max": 700,
}
"""So small that snapshots are taken, fetched in pieces and installed all the time."""


def seeds(first: int, quick: int, slow: int) -> list[Any]:
    """So many from `first` on for every commit, and more for the whole suite."""
    later = range(first + quick, first + quick + slow)
    marked = [pytest.param(seed, marks=pytest.mark.slow) for seed in later]
    return [*range(first, first + quick), *marked]


@pytest.mark.parametrize("seed", seeds(0, 1, 9))
def test_a_static_quorum_under_random_faults_keeps_its_promises(seed: int) -> None:
    chaos = Chaos(Quorum(seed, voters=5 if seed % 4 == 3 else 3, observers=seed % 2))
    chaos.play()
    assert chaos.totals["elections"] > 1
    assert chaos.totals["committed"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(100, 1, 7))
def test_a_quorum_that_takes_snapshots_all_the_time_keeps_its_promises(seed: int) -> None:
    chaos = Chaos(Quorum(seed, observers=1, **TIGHT))
    chaos.play()
    assert chaos.totals["committed"] > 50


@pytest.mark.parametrize("seed", seeds(200, 1, 9))
def test_a_quorum_whose_voters_change_keeps_its_promises(seed: int) -> None:
    chaos = Chaos(Quorum(seed, voters=4, first_voters=1 + seed % 3, **(TIGHT if seed % 2 else {})))
    chaos.play()
    assert chaos.totals["committed"] > 50


@pytest.mark.parametrize("seed", seeds(300, 1, 5))
def test_a_quorum_that_is_made_dynamic_keeps_its_promises(seed: int) -> None:
    quorum = Quorum(seed, voters=4, observers=1, **(TIGHT if seed % 2 else {}))
    quorum.is_dynamic = True  # its voters change as soon as it can be done
    for node in quorum.nodes.values():
        node.settings = replace(node.settings, auto_join=seed % 3 > 0)
    chaos = Chaos(quorum)
    chaos.play()
    assert chaos.totals["committed"] > 50
