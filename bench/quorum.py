"""The quorum alone: three processes on one disk, commits per second and their latency.

    python -m bench.quorum [SECONDS]

Prints, for 1 and 64 proposals of one record in flight, commits per second, median and 99th percentile,
beside the time of an fdatasync measured right afterwards; then the idle cost of a node.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from barnabas.client.channels import Channels
from barnabas.host.journal import Journal
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.raft import handlers
from barnabas.raft.driver import QuorumReplica
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.server import RequestServer

NODES = (1, 2, 3)
BASE_PORT = 19_400
VALUE = b"v" * 100
WARM_UP_S = 0.5


class Load:
    """The state machine of one node: while it leads, it keeps `in_flight` proposals under way."""

    def __init__(self, node: int, in_flight: int, seconds: float) -> None:
        self._node = node
        self._in_flight = in_flight
        self._seconds = seconds
        self._waiting: deque[tuple[int, float]] = deque()
        self._latencies: list[float] = []
        self._begun_s = 0.0
        self.replica: QuorumReplica | None = None

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        if leader_id == self._node and self.replica is not None:
            self._begun_s = time.monotonic()
            self._propose(self._in_flight)

    def _propose(self, count: int) -> None:
        assert self.replica is not None
        for _ in range(count):
            self._waiting.append((self.replica.append([VALUE]), time.monotonic()))

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        now, last, done = time.monotonic(), batches[-1].last_offset, 0
        while self._waiting and self._waiting[0][0] <= last:
            self._latencies.append(now - self._waiting.popleft()[1])
            done += 1
        if self._begun_s and now - self._begun_s > self._seconds + WARM_UP_S:
            self._report(now)
        if done and self.replica is not None and self.replica.is_active:
            self._propose(done)

    def _report(self, now: float) -> None:
        found = sorted(self._latencies)
        result = {
            "commits_per_s": round(len(found) / (now - self._begun_s)),
            "p50_ms": round(found[len(found) // 2] * 1e3, 2),
            "p99_ms": round(found[len(found) * 99 // 100] * 1e3, 2),
        }
        os.write(1, json.dumps(result).encode() + b"\n")
        os._exit(0)

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        """Nothing is kept."""

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        return None


def run_node(node: int, directory: str, in_flight: int, seconds: float) -> None:
    """One process; the leader prints the result and ends."""
    endpoints = {n: Endpoint("127.0.0.1", BASE_PORT + n) for n in NODES}
    loop = new_loop()
    ports = HostPorts(loop, Journal(level="error"))
    load = Load(node, in_flight, seconds)
    settings = ReplicaSettings(
        cluster_id="bench",
        node_id=node,
        directory_id=Uuid(bytes([node]) * 16),
        can_vote=True,
        listeners={"CONTROLLER": endpoints[node]},
        static_voters=endpoints,
    )
    channels = Channels(ports, f"bench-{node}")
    replica = load.replica = QuorumReplica.open(ports, settings, directory, channels, load)
    table = ApiTable()
    handlers.add_to(table, replica)
    ports.network.listen(endpoints[node], RequestServer(ports, "CONTROLLER", table).accept)
    replica.start()
    loop.run_forever()


def start(root: Path, in_flight: int, seconds: float) -> list[subprocess.Popen[bytes]]:
    processes = []
    for node in NODES:
        directory = root / f"{in_flight}-{node}"
        directory.mkdir(parents=True)
        words = ["node", str(node), str(directory), str(in_flight), str(seconds)]
        command = [sys.executable, "-m", "bench.quorum", *words]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    return processes


def measure(root: Path, in_flight: int, seconds: float) -> dict[str, float]:
    """What the leader reports."""
    processes = start(root, in_flight, seconds)
    try:
        while True:
            for process in processes:
                if process.poll() is not None:
                    assert process.stdout is not None
                    found: dict[str, float] = json.loads(process.stdout.read())
                    return found
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def fdatasync_ms(root: Path, count: int = 300) -> float:
    """Median of `count` appends of a small batch, each made durable."""
    descriptor = os.open(root / "sync", os.O_CREAT | os.O_WRONLY)
    took = []
    for _ in range(count):
        os.write(descriptor, VALUE * 2)
        begun = time.monotonic()
        os.fdatasync(descriptor)
        took.append(time.monotonic() - begun)
    os.close(descriptor)
    return sorted(took)[count // 2] * 1e3


def idle_percent(root: Path, seconds: float) -> list[float]:
    """Of a core, per node, while nothing is proposed."""
    processes = start(root, 0, 3600)
    ticks = os.sysconf("SC_CLK_TCK")

    def used(process: subprocess.Popen[bytes]) -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    try:
        time.sleep(2)
        before = [used(process) for process in processes]
        time.sleep(seconds)
        after = [used(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [round((b - a) / ticks / seconds * 100, 2) for a, b in zip(before, after)]


def main() -> None:
    if sys.argv[1:2] == ["node"]:
        run_node(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory(prefix="quorum-") as name:
        root = Path(name)
        for in_flight in (1, 64):
            found = measure(root, in_flight, seconds)
            sync_ms = fdatasync_ms(root)
            share = found["commits_per_s"] / (1e3 / (2 * sync_ms))
            print(
                f"{in_flight:3} in flight: {found['commits_per_s']:6} commits/s,"
                f" p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms;"
                f" fdatasync {sync_ms:.2f} ms, {share:.1f} times 1/(2 fdatasync)"
            )
        print(f"idle: {idle_percent(root, seconds)} % of a core per node")


if __name__ == "__main__":
    main()
