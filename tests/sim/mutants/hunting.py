"""Playing seeds with one mutant planted, until one of them fails that passes without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.sim.run import play_seed
from barnabas.sim.runner.worker_pool import in_order
from tests.sim.mutants import BY_NAME

SEEDS_MAX = 300
"""Within which every mutant must be found."""


MISPLANTED = ("AttributeError", "ImportError", "NameError", "TypeError")
"""Exceptions that say that a patch does not fit what it replaces: no find."""


class Found(NamedTuple):
    """What became of one mutant."""

    name: str
    seed: int
    """-1 where no seed found it."""
    seeds: int
    """How many were played."""
    judge: str = ""
    """The module that objected."""
    verdict: str = ""


def hunt_all(names: list[str], first: int, seeds: int, jobs: int) -> Iterator[Found]:
    work = [(name, first, seeds) for name in names]
    # A process per mutant: nothing of one is left when the next is planted.
    yield from in_order(hunt, work, jobs, 1)


def hunt(work: tuple[str, int, int]) -> Found:
    """Play seeds with one mutant planted until one fails that passes without it."""
    name, first, seeds = work
    plan = BY_NAME[name].plan
    for seed in range(first, first + seeds):
        with BY_NAME[name].planted():
            result = play_seed(seed, plan)
        if not result.passed and play_seed(seed, plan).passed:
            verdict = one_line(result.failure)
            if verdict.startswith(MISPLANTED):
                return Found(name, -1, seed - first + 1, "planted wrongly", verdict)
            return Found(name, seed, seed - first + 1, result.judge, verdict)
    return Found(name, -1, seeds)


def one_line(failure: str) -> str:
    text = failure.strip().splitlines()[-1].removeprefix("Violation: ").replace("|", "/")
    return text if len(text) <= 150 else text[:147] + "..."
