"""The planted bugs: each can still be planted, and some that show quickly are found in every test run.

``make sim-mutants`` hunts them all; docs/mutants.md has the table of the last whole hunt.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.mutants import BY_NAME, MUTANTS
from tests.sim.mutants.hunting import SEEDS_MAX, hunt
from tests.sim.mutants.planting import Mutant

KEYWORD = inspect.Parameter.KEYWORD_ONLY
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
TABLE = Path(__file__).parents[2] / "docs" / "mutants.md"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_can_be_planted_and_leaves_nothing_behind(mutant: Mutant) -> None:
    def present() -> list[object]:
        return [
            owner[next(k for k in owner if k.__name__ == name)]
            if isinstance(owner, dict)
            else vars(owner)[name]
            for owner, name, _ in targets
        ]

    targets = mutant.patches()
    before = present()
    with mutant.planted():
        assert all(now is not then for now, then in zip(present(), before, strict=True))
    assert all(now is then for now, then in zip(present(), before, strict=True))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_takes_the_arguments_of_what_it_replaces(mutant: Mutant) -> None:
    """One that raises `TypeError` shows nothing."""
    for owner, name, patch in mutant.patches():
        honest = (
            next(owner[key] for key in owner if key.__name__ == name)
            if isinstance(owner, dict)
            else getattr(owner, name)
        )
        if not inspect.isroutine(honest) or not callable(patch):
            continue
        wanted, given = parameters(honest), parameters(patch)
        if any(each.kind in VARIABLE for each in given):
            continue
        assert len(given) == len(wanted), (name, wanted, given)
        for then, now in zip(wanted, given, strict=True):
            assert (then.kind is KEYWORD) <= (now.kind is KEYWORD and now.name == then.name), name
            assert (then.default is then.empty) or (now.default is not now.empty), name


def parameters(called: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(called).parameters.values())


def test_every_bug_is_in_the_table_with_the_seed_that_found_it() -> None:
    rows = [line.split("|") for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    found = {row[1].strip(): row[3].strip() for row in rows if row[1].strip() in BY_NAME}
    assert sorted(found) == sorted(BY_NAME)
    assert all(seed.isdigit() for seed in found.values())
    assert len(MUTANTS) >= 15


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    ["leader-counts-unsynced", "unbounded-high-watermark", "duplicate-sequence",
     "leader-epoch-not-bumped", "commit-answered-early"],
)  # fmt: skip
def test_a_bug_that_shows_quickly_is_found(name: str) -> None:
    found = hunt((name, 1, SEEDS_MAX // 10))
    assert found.seed >= 0
