"""``python -m tests.sim.mutants``: plant each bug, play seeds until one finds it, print the table.

Exit status 1 where a bug is not found within the bound. With ``--journal FILE`` what was found is kept there:
interrupted, the same command continues with the bugs that are left, of the same commit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from barnabas.sim.runner.report import commit, failure_text
from barnabas.sim.runner.shrink import shrink
from tests.sim.mutants import BY_NAME, MUTANTS
from tests.sim.mutants.hunting import SEEDS_MAX, Found, hunt_all
from tests.sim.mutants.recorded import record


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.mutants", description=__doc__)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, of each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--journal", type=Path, help="a file: the hunt continues where it stopped")
    parser.add_argument("--record", action="store_true", help="keep the finds for docs/mutants.md")
    parser.add_argument("--seed", type=int, help="play --only with this seed, print and reduce it")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return show(options.only, options.seed)
    names = options.only.split(",") if options.only else [mutant.name for mutant in MUTANTS]
    began = time.perf_counter()
    known = found_before(options.journal)
    left = [name for name in names if name not in known]
    print(f"commit {commit()}\n")
    print("| mutant | the bug | seed | seeds played | found by | what it said |")
    print("|---|---|---|---|---|---|")
    for name in names:
        if name in known:
            print(row(known[name]), flush=True)
    for found in hunt_all(left, options.first, options.seeds, options.jobs):
        print(row(found), flush=True)
        known[found.name] = found
        if options.journal is not None:
            with options.journal.open("a") as file:
                file.write(json.dumps(found._asdict()) + "\n")
    if options.record:
        record({name: known[name] for name in names if known[name].seed >= 0})
    missed = [name for name in names if known[name].seed < 0]
    took = time.perf_counter() - began
    print(f"\n{len(names) - len(missed)} of {len(names)} found in {took:.0f} s", end="")
    print(f"; not found: {', '.join(missed)}" if missed else "")
    return 1 if missed else 0


def row(found: Found) -> str:
    seed = str(found.seed) if found.seed >= 0 else "not found"
    return (
        f"| {found.name} | {BY_NAME[found.name].bug} | {seed} | {found.seeds} | {found.judge}"
        f" | {found.verdict} |"
    )


def found_before(journal: Path | None) -> dict[str, Found]:
    """What the journal has; a new one is begun with the commit, and another commit's is refused."""
    if journal is None:
        return {}
    if not journal.exists():
        journal.write_text(json.dumps({"commit": commit()}) + "\n")
    first, *lines = journal.read_text().splitlines()
    if json.loads(first) != {"commit": commit()}:
        sys.exit(f"{journal} is of another commit: {first}")
    found = [Found(**json.loads(line)) for line in lines]
    return {one.name: one for one in found}


def show(name: str, seed: int) -> int:
    """One mutant under one seed, as the simulator prints a failure, and reduced."""
    with BY_NAME[name].planted():
        shrunk = shrink(seed, BY_NAME[name].plan)
    if shrunk is None:
        print(f"seed {seed} does not find {name}")
        return 1
    print(failure_text(shrunk.result, shrunk.plan, 20))
    print(shrunk.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
