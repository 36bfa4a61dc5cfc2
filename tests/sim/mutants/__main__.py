"""``python -m tests.sim.mutants``: plant each bug, play seeds until one finds it, print the table.

Exit status 1 where a bug is not found within the bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from barnabas.sim.report import failure_text
from barnabas.sim.shrink import shrink
from tests.sim.mutants import BY_NAME, MUTANTS
from tests.sim.mutants.hunting import SEEDS_MAX, hunt_all


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.mutants", description=__doc__)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, of each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--seed", type=int, help="play --only with this seed, print and reduce it")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return show(options.only, options.seed)
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


def show(name: str, seed: int) -> int:
    """One mutant under one seed, as the simulator prints a failure, and reduced."""
    with BY_NAME[name].planted():
        shrunk = shrink(seed)
    if shrunk is None:
        print(f"seed {seed} does not find {name}")
        return 1
    print(failure_text(shrunk.result, shrunk.plan, 20))
    print(shrunk.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
