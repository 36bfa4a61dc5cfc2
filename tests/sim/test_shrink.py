"""Reducing a failing seed: the search itself, and a planted bug reduced to the fault that shows it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.sim.run import Plan, play_seed
from barnabas.sim.runner.report import command, numbers_of, ranges_text
from barnabas.sim.runner.shrink import ddmin, shrink
from tests.sim.mutants import BY_NAME


@pytest.mark.parametrize("needed", [{3}, {0, 19}, {2, 9, 10, 17}, set()])
def test_ddmin_finds_exactly_what_is_needed(needed: set[int]) -> None:
    def fails(kept: Sequence[int]) -> bool:
        return needed <= set(kept)

    assert ddmin(range(20), fails) == sorted(needed)


def test_numbers_are_written_as_ranges_and_read_again() -> None:
    numbers = frozenset({1, 2, 3, 7, 9, 10})
    assert ranges_text(numbers) == "1-3,7,9-10"
    assert numbers_of("1-3,7,9-10") == numbers
    assert numbers_of("") == frozenset()


def test_the_command_says_everything_that_a_plan_fixes() -> None:
    plan = Plan(3, 250.5, frozenset({"kill"}), frozenset({4, 5}), frozenset({"b", "a"}))
    assert command(7, plan) == (
        'make sim SEED=7 ARGS="--nodes 3 --faults-ms 250.5 --faults kill --skip-faults 4-5'
        ' --skip-clients a,b"'
    )


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_planted_bug_is_reduced_to_what_shows_it() -> None:
    with BY_NAME["unbounded-high-watermark"].planted():
        seed = next(seed for seed in range(1, 41) if not play_seed(seed).passed)
        shrunk = shrink(seed)
        assert shrunk is not None
        again = play_seed(seed, shrunk.plan)
    assert again.trace_hash == shrunk.result.trace_hash
    assert again.failure == shrunk.result.failure
    assert len(again.struck) <= 1  # it takes no fault to see a mark that no follower has reached
    assert len(shrunk.plan.skip_clients) >= len(shrunk.before.clients) - 2
    assert f"make sim SEED={seed}" in shrunk.text()
    assert play_seed(seed, shrunk.plan).passed
