"""One process of a bare quorum, for measurements and tests: a replica without broker or metadata.

    python -m bench.quorum_node NODE DIRECTORY PORT,PORT,PORT IN_FLIGHT SECONDS

Node n listens on the n-th port; default settings. Prints a JSON line per event, with the machine-wide
monotonic clock: ``{"at_s": ..., "leader": 2, "epoch": 3}`` whenever this replica learns who leads (of
itself: when it may write). While it leads it keeps IN_FLIGHT proposals of one record under way; after
SECONDS it prints what it measured and ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence

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

VALUE = b"v" * 100
WARM_UP_S = 0.5


def say(**event: object) -> None:
    """One line that is there at once, whoever kills this process."""
    os.write(1, json.dumps(event).encode() + b"\n")


class Load:
    """The state machine of one node: while it leads, it keeps `in_flight` proposals under way."""

    def __init__(self, node: int, in_flight: int, seconds: float) -> None:
        self._node = node
        self._in_flight = in_flight
        self._seconds = seconds
        self._waiting: deque[tuple[int, float]] = deque()
        self._latencies: list[float] = []
        self._begun_s = self._begun_cpu_s = 0.0
        self.replica: QuorumReplica | None = None

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        say(at_s=time.monotonic(), leader=leader_id, epoch=epoch)
        if leader_id == self._node and self._in_flight and self.replica is not None:
            self._begun_s = time.monotonic() + WARM_UP_S
            self._propose(self._in_flight)

    def _propose(self, count: int) -> None:
        assert self.replica is not None
        for _ in range(count):
            self._waiting.append((self.replica.append([VALUE]), time.monotonic()))

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        now, last, done = time.monotonic(), batches[-1].last_offset, 0
        while self._waiting and self._waiting[0][0] <= last:
            begun = self._waiting.popleft()[1]
            if begun >= self._begun_s:
                self._begun_cpu_s = self._begun_cpu_s or time.process_time()
                self._latencies.append(now - begun)
            done += 1
        if self._begun_s and now - self._begun_s > self._seconds:
            self._report(now)
        if done and self.replica is not None and self.replica.is_active:
            self._propose(done)

    def _report(self, now: float) -> None:
        found = sorted(self._latencies)
        say(
            commits_per_s=round(len(found) / (now - self._begun_s)),
            p50_ms=round(found[len(found) // 2] * 1e3, 2),
            p99_ms=round(found[len(found) * 99 // 100] * 1e3, 2),
            cpu_us=round((time.process_time() - self._begun_cpu_s) / len(found) * 1e6, 1),
        )
        os._exit(0)

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        """Nothing is kept."""

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        return None


def run(node: int, directory: str, listen: Sequence[int], in_flight: int, seconds: float) -> None:
    """Until it is killed or has reported."""
    endpoints = {n: Endpoint("127.0.0.1", port) for n, port in enumerate(listen, 1)}
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


def main() -> None:
    node, directory, listen, in_flight, seconds = sys.argv[1:]
    run(int(node), directory, [int(p) for p in listen.split(",")], int(in_flight), float(seconds))


if __name__ == "__main__":
    main()
