"""The time until a cluster for tests takes writes, and the memory of its nodes.

Usage: ``python -m bench.start [--starts 50] [--nodes 1,3] [--faults]``. Each start is that of
`barnabas.testing.cluster.Cluster` in a directory of its own, one after the other, after one that does not
count. Prints p50 and p95 of the seconds, the CPU seconds of the processes, and the nodes' PSS, and writes
them to ``bench/results/start.txt``. A busy machine makes the seconds meaningless: compare the CPU seconds
then.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from barnabas.testing.cluster import Cluster
from barnabas.testing.template import TEMPLATE

RESULTS = Path(__file__).parent / "results" / "start.txt"
GOALS_S = {1: 0.6, 3: 1.2}
"""The goals for p95, by the number of nodes."""
PSS_GOAL_MB = 60


class Start(NamedTuple):
    """One start."""

    seconds: float
    cpu_s: float
    """Of ``barnabas up`` and its nodes, until the cluster takes writes and ends."""
    pss_mb: float
    """The largest of its nodes."""


def pss_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"Pss:\s+(\d+) kB", text)
    assert found is not None, text
    return int(found[1]) / 1024


def children_cpu_s() -> float:
    """Of the processes that have ended; those of the template are its children, not ours."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + template_cpu_s()


def template_cpu_s() -> float:
    if TEMPLATE.pid is None:
        return 0.0
    figures = Path(f"/proc/{TEMPLATE.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, figures[11:15])) / os.sysconf("SC_CLK_TCK")


def start(nodes: int, *, faults: bool) -> Start:
    before_s, began = children_cpu_s(), time.monotonic()
    with Cluster(nodes=nodes, faults=faults) as cluster:
        seconds = time.monotonic() - began
        largest = max(pss_mb(cluster.pid(node)) for node in cluster.node_ids)
    return Start(seconds, children_cpu_s() - before_s, largest)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def line(nodes: int, starts: list[Start]) -> str:
    seconds = [one.seconds for one in starts]
    goal = f" (goal {GOALS_S[nodes]})" if nodes in GOALS_S else ""
    return (
        f"{nodes} nodes, {len(starts)} starts: p50 {percentile(seconds, 0.5):.2f} s,"
        f" p95 {percentile(seconds, 0.95):.2f} s{goal},"
        f" CPU {statistics.median(one.cpu_s for one in starts):.2f} s,"
        f" PSS {max(one.pss_mb for one in starts):.0f} MB a node (goal {PSS_GOAL_MB})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--nodes", default="1,3")
    parser.add_argument("--faults", action="store_true", help="clusters with faults")
    options = parser.parse_args()
    lines = [
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores{' with faults' * options.faults}"
    ]
    for nodes in map(int, options.nodes.split(",")):
        start(nodes, faults=options.faults)
        starts = [start(nodes, faults=options.faults) for _ in range(options.starts)]
        lines.append(line(nodes, starts))
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
