"""The quorum alone: three processes on one disk, what commits, elections and idling cost.

    python -m bench.quorum [SECONDS]

Writes `bench/results/quorum.txt`: for 1 and 64 proposals of one record in flight commits per second and
their latency, beside the mean time of an fdatasync of the log in the same run, and of one beside it in
between (the smaller one counts); the time from
kill -9 of the leader until another writes; the CPU an idle node uses; the replay of a million records.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.quorum_processes import NODES, Processes
from bench.quorum_replay import measure as measure_replay

RESULTS = Path(__file__).parent / "results" / "quorum.txt"
KILLS = 10
SYNC_MS = (0.0, 1.0, 4.0)
"""What an fdatasync takes at least: as it is here, and as on disks that do not answer out of a cache."""


def commits(root: Path, in_flight: int, seconds: float, sync_ms: float = 0.0) -> str:
    """What the leader measures, beside the disk in between, whose fdatasync takes `sync_ms` or more."""
    with Processes(root / f"{in_flight}-{sync_ms}", in_flight, seconds, sync_ms) as quorum:
        quorum.start()
        quorum.wait_for(lambda: quorum.result is not None, 60 + 10 * seconds)
    found = quorum.result
    assert found is not None
    return (
        f"{in_flight:3} in flight: {found['commits_per_s']:6} commits/s, p50 {found['p50_ms']} ms,"
        f" p99 {found['p99_ms']} ms, {found['cpu_us']} µs of the leader's CPU each;"
        f" fdatasync of the log {found['log_sync_ms']:.2f} ms, beside it in between"
        f" {found['sync_ms']:.2f} ms: {found['of_limit']:.0%} of 1/(2 fdatasync)"
    )


def failovers(root: Path, kills: int = KILLS) -> list[float]:
    """Seconds from kill -9 of the leader until another says that it may write."""
    took = []
    with Processes(root / "failover") as quorum:
        quorum.start()
        for _ in range(kills):
            quorum.wait_for(quorum.agreed)
            quorum.watch(0.5)
            quorum.wait_for(quorum.agreed)
            leader = quorum.leader
            assert leader is not None
            killed_s = quorum.kill(leader.node)
            quorum.wait_for(lambda: quorum.leader is not None)
            found = quorum.leader
            assert found is not None and found.epoch > leader.epoch
            took.append(found.at_s - killed_s)
            quorum.start(leader.node)
    return took


def idle_percent(root: Path, seconds: float) -> list[float]:
    """Of a core, per node, while nothing is proposed."""
    with Processes(root / "idle") as quorum:
        quorum.start()
        quorum.wait_for(quorum.agreed)
        quorum.watch(1.0)
        before = [quorum.cpu_s(node) for node in NODES]
        begun = time.monotonic()
        quorum.watch(seconds)
        after = [quorum.cpu_s(node) for node in NODES]
        took = time.monotonic() - begun
    return [round((b - a) / took * 100, 2) for a, b in zip(before, after, strict=True)]


def report(root: Path, seconds: float) -> list[str]:
    """The lines of the results."""
    when, load = datetime.now(UTC), os.getloadavg()[0]
    lines = [
        f"# python -m bench.quorum, {when:%Y-%m-%d}, {os.cpu_count()} cores, load {load:.1f} before"
    ]
    lines += [commits(root, 1, seconds, sync_ms) for sync_ms in SYNC_MS]
    lines.append(commits(root, 64, seconds))
    took = sorted(failovers(root))
    lines.append(
        f"kill -9 of the leader, {len(took)} times: another writes after {took[len(took) // 2]:.3f} s"
        f" at the median, {took[-1]:.3f} s at the most"
    )
    lines.append(f"idle: {idle_percent(root, max(2 * seconds, 10))} % of a core per node")
    lines += [measure_replay(root, 1_000_000, per_batch) for per_batch in (1, 50)]
    return lines


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory(prefix="quorum-") as name:
        lines = report(Path(name), seconds)
    RESULTS.write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
