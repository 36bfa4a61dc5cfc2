"""One process of a bare quorum, for measurements and tests: a replica without broker or metadata.

    python -m bench.quorum_node NODE DIRECTORY PORT,PORT,PORT IN_FLIGHT SECONDS [SYNC_MS]

Node n listens on the n-th port; default settings. Prints a JSON line per event, with the machine-wide
monotonic clock: ``{"at_s": ..., "leader": 2, "epoch": 3}`` whenever this replica learns who leads (of
itself: when it may write). While it leads it keeps IN_FLIGHT proposals of one record under way, in slices
of a tenth of a second; between two of them, when nothing is under way, it times some fdatasyncs of a
file beside the log, which grows by as much as the log does; and it times the log's own. After SECONDS it
prints what it measured and ends. With SYNC_MS each fdatasync takes at least so long, as on a disk that
does not answer out of a cache.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.client.network.channels import Channels
from barnabas.host.garbage_collector import GarbageCollector
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.raft import handlers
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.server import RequestServer

VALUE = b"v" * 100
WARM_UP_S = 0.5
SLICE_S = 0.1
SYNCS = 10
"""Timed between two slices. A disk's fdatasync may take thirty times as long a second later: each slice is
compared with those right behind it."""


def say(**event: object) -> None:
    """One line that is there at once, even if this process is killed."""
    os.write(1, json.dumps(event).encode() + b"\n")


class Syncs:
    """In front of ``os.fdatasync`` of this process: each takes `least_s` at least, and is timed. A caller
    that waits for one holds no lock."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._really = os.fdatasync
        self.took_s: list[float] = []
        os.fdatasync = self  # type: ignore[assignment]

    def __call__(self, fd: int) -> None:
        begun = time.monotonic()
        self._really(fd)
        if self._least_s:
            time.sleep(max(begun + self._least_s - time.monotonic(), 0.0))
        self.took_s.append(time.monotonic() - begun)

    def take_s(self) -> float:
        """The mean since the last time."""
        took, self.took_s = self.took_s, []
        return sum(took) / len(took)


class Slice(NamedTuple):
    """Commits of a stretch of time; an fdatasync of the log in it, and one beside it right after."""

    commits: int
    took_s: float
    log_sync_s: float
    sync_s: float


class Load:
    """The state machine of one node: while it leads, it keeps `in_flight` proposals under way."""

    def __init__(
        self, node: int, directory: str, in_flight: int, seconds: float, syncs: Syncs
    ) -> None:
        self._node = node
        self._syncs = syncs
        self._in_flight = in_flight
        self._seconds = seconds
        self._file = os.open(f"{directory}/syncs", os.O_CREAT | os.O_WRONLY)
        self._waiting: deque[tuple[int, float]] = deque()
        self._latencies: list[float] = []
        self._slices: list[Slice] = []
        self._measures_at_s = self._slice_begun_s = self._cpu_s = 0.0
        self._commits = 0
        """Of this slice."""
        self.replica: RaftNode | None = None

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        say(at_s=time.monotonic(), leader=leader_id, epoch=epoch)
        if leader_id == self._node and self._in_flight and self.replica is not None:
            self._measures_at_s = time.monotonic() + WARM_UP_S
            self._begin_slice()

    def _begin_slice(self) -> None:
        self._commits, self._slice_begun_s = 0, time.monotonic()
        self._cpu_s -= time.process_time()
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
        self._commits += done
        if not done or self.replica is None or not self.replica.is_active:
            return
        if now - self._slice_begun_s < SLICE_S:
            self._propose(done)
        elif not self._waiting:
            self._end_slice(now)

    def _end_slice(self, now: float) -> None:
        self._cpu_s += time.process_time()
        took_s, log_sync_s = now - self._slice_begun_s, self._syncs.take_s()
        if now >= self._measures_at_s:
            self._slices.append(Slice(self._commits, took_s, log_sync_s, self._sync_s()))
        else:  # still warming up
            self._latencies.clear()
            self._cpu_s = 0.0
        if sum(one.took_s for one in self._slices) > self._seconds:
            self._report()
        self._begin_slice()

    def _sync_s(self) -> float:
        """What an fdatasync takes now, in the mean."""
        for _ in range(SYNCS):
            os.write(self._file, VALUE * 2)
            os.fdatasync(self._file)
        return self._syncs.take_s()

    def _report(self) -> None:
        found, slices = sorted(self._latencies), self._slices
        commits = sum(one.commits for one in slices)
        per_s = commits / sum(one.took_s for one in slices)
        log_sync_s, sync_s = (
            sum(each) / len(slices)
            for each in ([one.log_sync_s for one in slices], [one.sync_s for one in slices])
        )
        say(
            commits_per_s=round(per_s),
            p50_ms=round(found[len(found) // 2] * 1e3, 2),
            p99_ms=round(found[len(found) * 99 // 100] * 1e3, 2),
            cpu_us=round(self._cpu_s / commits * 1e6, 1),
            log_sync_ms=round(log_sync_s * 1e3, 3),
            sync_ms=round(sync_s * 1e3, 3),
            of_limit=round(per_s * 2 * min(sync_s, log_sync_s), 3),
        )
        os._exit(0)

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        """Nothing is kept."""

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        return None


def run(
    node: int, directory: str, listen: Sequence[int], in_flight: int, seconds: float, sync_s: float
) -> None:
    """Until it is killed or has reported."""
    endpoints = {n: Endpoint("127.0.0.1", port) for n, port in enumerate(listen, 1)}
    loop = new_loop()
    ports = HostPorts(loop, StructuredLog(level="error"))
    load = Load(node, directory, in_flight, seconds, Syncs(sync_s))
    settings = ReplicaSettings(
        cluster_id="bench",
        node_id=node,
        directory_id=Uuid(bytes([node]) * 16),
        can_vote=True,
        listeners={"CONTROLLER": endpoints[node]},
        static_voters=endpoints,
    )
    channels = Channels(ports, f"bench-{node}")
    replica = load.replica = RaftNode.open(ports, settings, directory, channels, load)
    table = ApiTable()
    handlers.add_to(table, replica)
    ports.network.listen(endpoints[node], RequestServer(ports, "CONTROLLER", table).accept)
    loop.housekeeper = collector = GarbageCollector()  # as every node
    collector.begin()
    replica.start()
    loop.run_forever()


def main() -> None:
    node, directory, listen, in_flight, seconds, *more = sys.argv[1:]
    ports = [int(port) for port in listen.split(",")]
    sync_s = float(more[0]) / 1e3 if more else 0.0
    run(int(node), directory, ports, int(in_flight), float(seconds), sync_s)


if __name__ == "__main__":
    main()
