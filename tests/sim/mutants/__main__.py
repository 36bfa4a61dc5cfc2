"""``python -m tests.sim.mutants``: plant each bug, play seeds until one finds it, print the table.

Exit status 1 where a bug is not found within the bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.sim.mutants import BY_NAME, MUTANTS
from tests.sim.mutants.hunting import SEEDS_MAX, hunt_all


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


if __name__ == "__main__":
    sys.exit(main())
