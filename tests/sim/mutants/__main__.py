"""``python -m tests.sim.mutants``: plant each bug, play seeds until one finds it, print the table.

Exit status 1 where a bug is not found within the bound.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.sim.run import play_seed
from tests.sim.mutants import BY_NAME, MUTANTS

SEEDS_MAX = 300


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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.mutants", description=__doc__)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, of each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once")
    options = parser.parse_args(arguments)
    names = options.only.split(",") if options.only else [mutant.name for mutant in MUTANTS]
    began = time.perf_counter()
    print("| mutant | the bug | seed | seeds played | found by | what it said |")
    print("|---|---|---|---|---|---|")
    missed = []
    for found in hunt_all(names, options.first, options.seeds, options.jobs):
        seed = str(found.seed) if found.seed >= 0 else "not found"
        print(
            f"| {found.name} | {BY_NAME[found.name].bug} | {seed} | {found.seeds} | {found.judge}"
            f" | {found.verdict} |",
            flush=True,
        )
        if found.seed < 0:
            missed.append(found.name)
    took = time.perf_counter() - began
    print(f"\n{len(names) - len(missed)} of {len(names)} found in {took:.0f} s", end="")
    print(f"; not found: {', '.join(missed)}" if missed else "")
    return 1 if missed else 0


def hunt_all(names: list[str], first: int, seeds: int, jobs: int) -> Iterator[Found]:
    work = [(name, first, seeds) for name in names]
    # A process per mutant: nothing of one is left when the next is planted.
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap(hunt, work)


def hunt(work: tuple[str, int, int]) -> Found:
    """Play seeds with one mutant planted until one fails that passes without it."""
    name, first, seeds = work
    for seed in range(first, first + seeds):
        with BY_NAME[name].planted():
            result = play_seed(seed)
        if not result.passed and play_seed(seed).passed:
            verdict = one_line(result.failure)
            return Found(name, seed, seed - first + 1, result.judge, verdict)
    return Found(name, -1, seeds)


def one_line(failure: str) -> str:
    text = failure.strip().splitlines()[-1].removeprefix("Violation: ").replace("|", "/")
    return text if len(text) <= 150 else text[:147] + "..."


if __name__ == "__main__":
    sys.exit(main())
