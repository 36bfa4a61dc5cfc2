"""``python -m barnabas.sim --seed N`` or ``--from N --seeds M``: exit status 1 where a seed fails."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from barnabas.sim.faults import KINDS, Kind
from barnabas.sim.migration.faults import MIGRATION_KINDS
from barnabas.sim.run import Plan, Result, play_seed
from barnabas.sim.runner.report import TRACE_LINES, failure_text, numbers_of, source
from barnabas.sim.runner.run_journal import SEEDS_PER_LINE, JournalError, RunJournal, play_chunk
from barnabas.sim.runner.shrink import shrink
from barnabas.sim.runner.worker_pool import SEEDS_EACH, WorkerLostError, as_played, in_order
from barnabas.sim.share_swarm import SHARE_KINDS
from barnabas.sim.streams_swarm import STREAMS_KINDS
from barnabas.sim.zookeeper_mode.faults import ZOOKEEPER_KINDS

EXPECTED = (
    "elections", "leader changes", "ISR shrinks", "ISR expansions", "kills", "power losses",
    "netsplits", "rebalances", "faults", "truncations", "torn writes", "snapshots taken",
    "snapshots installed", "voter changes", "directories offline", "bits rotted",
    "whole-cluster restarts", "connections reset", "connections lost", "connections doubled",
    "ambushes", "logs compacted", "bits rotted at rest", "restarts at the end",
)  # fmt: skip
"""The events of which a run of `LONG_RUN_SEEDS` seeds or more must have some, or it does not try what it
claims to."""
LONG_RUN_SEEDS = 300


def options_parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="barnabas.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one, with its trace")
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="seeds played at once")
    parser.add_argument(
        "--faults",
        help="kinds of fault instead of the seed's own mix, or none: " + ", ".join(KINDS),
    )
    parser.add_argument("--hours", type=float, help="virtual hours of faults per seed")
    parser.add_argument("--faults-ms", type=float, help="the same in virtual milliseconds")
    parser.add_argument("--trace", type=int, default=TRACE_LINES, help="lines shown of a failure")
    parser.add_argument("--skip-faults", type=numbers_of, default="", help="by number: 1-4,7")
    parser.add_argument("--skip-clients", default="", help="by name: producer1,consumer0")
    parser.add_argument(
        "--journal",
        type=Path,
        help="a long run's file: it continues where it stopped, past failures",
    )
    parser.add_argument(
        "--secured", action="store_true", help="connections authenticate, ACLs and quotas change"
    )
    parser.add_argument(
        "--zookeeper", action="store_true", help="ZooKeeper coordinates the cluster, not a quorum"
    )
    parser.add_argument(
        "--migration",
        action="store_true",
        help="ZooKeeper does so at first; it migrates to a quorum",
    )
    parser.add_argument(
        "--eager", action="store_true", help="clients begin each transaction at once"
    )
    parser.add_argument(
        "--shares", action="store_true", help="share groups read a topic of their own"
    )
    parser.add_argument(
        "--streams", action="store_true", help="streams groups share tasks, on topics of their own"
    )
    parser.add_argument("--shrink", action="store_true", help="reduce --seed, where it fails")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = options_parser()
    options = parser.parse_args(arguments)
    faults_ms = options.faults_ms if options.hours is None else options.hours * 3_600_000
    known = ZOOKEEPER_KINDS if options.zookeeper else KINDS
    known = MIGRATION_KINDS if options.migration else known
    known = SHARE_KINDS if options.shares else known
    known = STREAMS_KINDS if options.streams else known
    plan = Plan(
        options.nodes,
        faults_ms,
        kinds_of(parser, options.faults, known),
        options.skip_faults,
        frozenset(filter(None, options.skip_clients.split(","))),
        options.secured,
        options.shares,
        options.eager,
        options.zookeeper,
        options.migration,
        options.streams,
    )
    kinds = options.secured, options.shares, options.streams, options.eager, plan.has_znodes
    if sum(kinds) > 1:
        parser.error(
            "--secured, --shares, --streams, --eager, --zookeeper and --migration are not played"
            " together"
        )
    if options.shrink and options.seed is None:
        parser.error("--shrink reduces one seed: name it with --seed")
    if options.shrink:
        return show_shrunk(options.seed, plan, options.trace)
    if options.seed is not None:
        result = play_seed(options.seed, plan)
        print(failure_text(result, plan, options.trace) if result.failure else summary(result))
        return 1 if result.failure else 0
    seeds = range(options.first, options.first + options.seeds)
    try:
        if options.journal is not None:
            return play_long(seeds, plan, options.trace, options.jobs, options.journal)
        return play_many(seeds, plan, options.trace, options.jobs)
    except WorkerLostError as error:
        print(error, file=sys.stderr)
        return 1


def show_shrunk(seed: int, plan: Plan, lines: int) -> int:
    shrunk = shrink(seed, plan)
    if shrunk is None:
        print(f"seed {seed} passes")
        return 0
    print(failure_text(shrunk.result, shrunk.plan, lines))
    print(shrunk.text())
    return 1


def kinds_of(
    parser: argparse.ArgumentParser, text: str | None, known: Mapping[str, Kind]
) -> frozenset[str] | None:
    """The kinds that ``--faults`` names; exits with a message where it names an unknown kind."""
    if text is None:
        return None
    kinds = frozenset(kind.strip() for kind in text.split(",")) - {"", "none"}
    if unknown := sorted(kinds - known.keys()):
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(known)}")
    return kinds


def play_many(seeds: range, plan: Plan, lines: int, jobs: int = 1) -> int:
    """Play `seeds` until one fails; prints totals and rates."""
    began, totals, virtual_ms = time.perf_counter(), Counter[str](), 0.0
    play = partial(play_seed, plan=plan, leave_garbage=True)
    for count, result in enumerate(in_order(play, seeds, jobs, SEEDS_EACH), 1):
        totals.update(result.totals)
        virtual_ms += result.virtual_ms
        if result.failure:
            print(failure_text(result, plan, lines))
            return 1
        if count % 20 == 0 or count == len(seeds):
            took = time.perf_counter() - began
            messages = totals["messages delivered"]
            print(
                f"{count} seeds, {count / took:.2f} seeds/s,"
                f" {virtual_ms / 3.6e6 / took:.5f} simulated hours/s, {messages / took:.0f} messages/s,"
                f" {messages / count:.0f} messages and {virtual_ms / 1000 / count:.0f} s each",
                flush=True,
            )
    return show_totals(totals, plan, len(seeds))


def play_long(seeds: range, plan: Plan, lines: int, jobs: int, path: Path) -> int:
    """Play what is left of `seeds` by the journal, each to its end, failures too; prints totals and rates."""
    try:
        journal = RunJournal(path, seeds, source())
    except JournalError as error:
        print(error, file=sys.stderr)
        return 2
    play = partial(play_chunk, plan=plan, lines=lines, leave_garbage=True)
    for _, played in as_played(play, journal.rest(), jobs, max(1, SEEDS_EACH // SEEDS_PER_LINE)):
        journal.note(played)
        for text in played.texts:
            print(text, flush=True)
        print(journal.all.rates(), flush=True)
    everything = journal.all
    print(everything.rates())
    if everything.failed:
        print(f"failed: {', '.join(map(str, sorted(everything.failed)))}")
    status = show_totals(Counter(everything.totals), plan, len(seeds))
    return 1 if everything.failed else status


def show_totals(totals: Counter[str], plan: Plan, seeds: int) -> int:
    """Print `totals`; 1 where something that a run of so many seeds must try never happened."""
    for name, count in sorted(totals.items()):
        print(f"  {name:28} {count}")
    whole = plan == Plan() and seeds >= LONG_RUN_SEEDS
    missing = [name for name in EXPECTED if not totals[name]] if whole else []
    if missing:
        print(f"never happened: {', '.join(missing)}")
        return 1
    return 0


def summary(result: Result) -> str:
    shown = ", ".join(f"{name} {count}" for name, count in sorted(result.totals.items()))
    return (
        f"seed {result.seed} passed: trace {result.trace_hash}, {result.virtual_ms / 1000:.1f} virtual"
        f" seconds in {result.cpu_s:.2f} s of a core\n{shown}"
    )


def run() -> int:
    """`main`, for a shell: who reads what is printed may stop (``| head``), which ends it without a word."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run())
