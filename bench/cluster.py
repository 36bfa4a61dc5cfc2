"""Barnabas and Apache Kafka side by side: three nodes each, the same client, one after the other.

Usage: ``python -m bench.cluster [--rounds 5] [--only NAME] [--systems kafka,barnabas]``. Prints medians
over the rounds after one warm-up, with the spread, and the ratio (of two kills per round the worst; of
`--only connected`, with clients that stay, a leader, a coordinator and the controller die in turn);
writes the same to ``bench/results/cluster.txt``. Without the peer's files it stops: `make peers`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from confluent_kafka import KafkaException

from bench import workloads
from bench.systems import ROOT, SYSTEMS, System

STEADY = {
    "throughput": workloads.throughput,
    "closed-loop": workloads.one_record_per_request,
    "end-to-end": workloads.end_to_end,
    "transactions": workloads.transactions,
}
KILLS = {
    "failover": workloads.failover,
    "controller": workloads.controller_failover,
    "connected": workloads.connected_before,
}
Samples = dict[str, dict[str, list[float]]]


def note(samples: Samples, system: System, figures: workloads.Figures, counted: bool) -> None:
    word = "" if counted else "(warm-up) "
    print(system.name, word, {k: round(v, 2) for k, v in figures.items()}, sep=" ", flush=True)
    if counted:
        for figure, value in figures.items():
            samples.setdefault(figure, {}).setdefault(system.name, []).append(value)


def play(name: str, scratch: Path, options: argparse.Namespace, samples: Samples) -> None:
    """Everything for one system: it starts afresh in every round, and the last cluster stays.

    That one carries a warm-up and then every round of load, so that a JVM has compiled what it runs,
    and at the end the kills, after which its nodes are cold again.
    """
    rounds = options.warm_up + options.rounds

    def wanted(workload: str) -> bool:
        return options.only is None or workload in options.only.split(",")

    system = SYSTEMS[name](scratch / name)
    try:
        for round_ in range(rounds if wanted("start") else 1):
            if round_:
                system.stop()
                system = SYSTEMS[name](scratch / name)
            note(samples, system, workloads.start(system, measure=wanted("start")),
                 round_ >= options.warm_up)  # fmt: skip
        for round_ in range(rounds):
            for workload, run in STEADY.items():
                if wanted(workload):
                    note(samples, system, run(system), round_ >= options.warm_up)
        for workload, kill in KILLS.items():
            if wanted(workload):
                for index in range(2 * options.rounds):
                    try:
                        note(samples, system, kill(system, index), counted=True)
                    except (KafkaException, TimeoutError, AssertionError, ExceptionGroup) as error:
                        print(f"{name} {workload} {index}: no figure: {error}", flush=True)
    finally:
        system.stop()


def table(samples: Samples, names: list[str]) -> str:
    """One line per figure; the ratio is of the medians, or of the worst where the figure says so."""
    lines = [
        f"{'figure':44}" + "".join(f"{n + ' median (min-max)':>34}" for n in names) + "  ratio"
    ]
    for figure, by_system in samples.items():
        line, compared = f"{figure:44}", []
        for name in names:
            values = by_system.get(name, [])
            if not values:
                line += f"{'-':>34}"
                continue
            median = statistics.median(values)
            compared.append(max(values) if "worst" in figure else median)
            line += f"{f'{median:.2f} ({min(values):.2f}-{max(values):.2f})':>34}"
        ratio = f"{compared[-1] / compared[0]:7.3f}" if len(compared) == 2 and compared[0] else ""
        lines.append(line + ratio)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--only", default=None)
    parser.add_argument("--systems", default="kafka,barnabas")
    options = parser.parse_args()
    names = options.systems.split(",")
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for name in names:
            play(name, Path(scratch), options, samples)
    text = table(samples, names)
    print(text)
    part = f"-{options.only.replace(',', '-')}" if options.only else ""
    target = ROOT / "bench" / "results" / f"cluster{part}.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        f"{options.rounds} rounds after {options.warm_up} warm-up on {os.cpu_count()} cores; ratio is"
        f" {names[-1]} / {names[0]}, of medians, of the worst where the figure says so\n{text}\n"
    )


if __name__ == "__main__":
    main()
