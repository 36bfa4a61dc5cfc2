"""Barnabas and Apache Kafka side by side: three nodes each, the same client, one after the other.

Usage: ``python -m bench.cluster [--rounds 5] [--only NAME] [--systems kafka,barnabas]``. Prints medians
over the rounds after one warm-up, with the spread, and the ratio; writes the same to
``bench/results/cluster.txt``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from bench import workloads
from bench.systems import ROOT, SYSTEMS, System

LATER = {
    "throughput": workloads.throughput,
    "closed-loop": workloads.one_record_per_request,
    "end-to-end": workloads.end_to_end,
    "failover": workloads.failover,
    "controller": workloads.controller_failover,
}
Samples = dict[str, dict[str, list[float]]]


def play(system: System, only: str | None, samples: Samples, counted: bool) -> None:
    """One round on a fresh cluster."""
    try:
        figures = workloads.start(system)
        for name, workload in LATER.items():
            if only is None or name in only.split(","):
                if name == "controller" and only is not None and "failover" not in only:
                    workloads.create_topic(system, "failover", partitions=1)
                figures |= workload(system)
        print(system.name, {k: round(v, 2) for k, v in figures.items()}, flush=True)
        if counted:
            for key, value in figures.items():
                samples.setdefault(key, {}).setdefault(system.name, []).append(value)
    finally:
        system.stop()


def table(samples: Samples, names: list[str]) -> str:
    lines = [
        f"{'figure':44}" + "".join(f"{n + ' median (min-max)':>34}" for n in names) + "  ratio"
    ]
    for figure, by_system in samples.items():
        line, medians = f"{figure:44}", []
        for name in names:
            values = by_system.get(name, [])
            if not values:
                line += f"{'-':>34}"
                continue
            median = statistics.median(values)
            medians.append(median)
            line += f"{f'{median:.2f} ({min(values):.2f}-{max(values):.2f})':>34}"
        ratio = f"{medians[-1] / medians[0]:7.3f}" if len(medians) == 2 and medians[0] else ""
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
        for round_ in range(options.warm_up + options.rounds):
            for name in names:
                system = SYSTEMS[name](Path(scratch) / name)
                play(system, options.only, samples, counted=round_ >= options.warm_up)
    text = table(samples, names)
    print(text)
    target = ROOT / "bench" / "results" / "cluster.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        f"{options.rounds} rounds after {options.warm_up} warm-up; ratio is last / first\n{text}\n"
    )


if __name__ == "__main__":
    main()
