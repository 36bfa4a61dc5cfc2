"""Replay of the quorum's log: a node that starts after a crash opens it, checks it and applies it.

    python -m bench.quorum_replay [RECORDS] [RECORDS_PER_BATCH]

The log has no snapshot, so the node reads every batch, checks its CRC and applies its records to the state
machine. Times are in seconds, by the clock and of CPU; the second says more on a busy machine. The defaults
are 1,000,000 records and one record per batch.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from barnabas.client.network.channels import Channels
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.raft.core.batches import data_batch
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.raft.storage.replica_log import DIRECTORY, PartitionRaftLog
from barnabas.types import Buffer, Endpoint, Uuid

VALUE_BYTES = 100
SEGMENT_BYTES = 1024 * 1024 * 1024


class Took(NamedTuple):
    """Seconds since the start, until the log was opened and until all records were applied."""

    opened_s: float
    opened_cpu_s: float
    applied_s: float
    applied_cpu_s: float


class Counter:
    """A state machine that counts records and bytes."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            for value in batch.values:
                self.bytes += len(value)
            self.records += len(batch.values)

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        raise AssertionError("there is no snapshot")

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """Has no effect here."""

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        return None


def write_log(directory: Path, records: int, per_batch: int) -> None:
    """A log of epoch 1 with `records` values, closed as a crash closes it."""
    ports = HostPorts(new_loop(), StructuredLog(level="error"))
    folder = directory / DIRECTORY
    folder.mkdir(parents=True)
    log = PartitionRaftLog.open(
        ports.disk, str(folder), start_offset=0, segment_bytes=SEGMENT_BYTES, segment_ms=10**9
    )
    value, now_ms = b"v" * VALUE_BYTES, time.time_ns() // 1_000_000
    run: list[bytes] = []
    for base in range(0, records, per_batch):
        run.append(data_batch([value] * min(per_batch, records - base), base, 1, now_ms))
        if len(run) == 1_000:
            log.append(b"".join(run))
            run.clear()
    log.append(b"".join(run))
    job, on_synced = log.sync_job()
    job()
    on_synced()
    log.close(clean=False)


def replay(directory: Path, records: int) -> Took:
    """Start the only voter of a quorum on the log in `directory`, and wait until all records are applied."""
    loop = new_loop()
    ports = HostPorts(loop, StructuredLog(level="error"))
    here = Endpoint("127.0.0.1", 1)
    settings = ReplicaSettings(
        cluster_id="bench",
        node_id=1,
        directory_id=Uuid(bytes(16)),
        can_vote=True,
        listeners={"CONTROLLER": here},
        static_voters={1: here},
        segment_bytes=SEGMENT_BYTES,
    )
    counter = Counter()
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    channels = Channels(ports, "bench")
    replica = RaftNode.open(ports, settings, str(directory), channels, counter)
    opened_s, opened_cpu_s = time.monotonic(), time.process_time()
    replica.start()

    def look() -> None:
        if counter.records >= records:
            loop.stop()
        else:
            loop.call_soon(look)

    loop.call_soon(look)
    loop.run_forever()
    took = Took(
        opened_s - begun_s,
        opened_cpu_s - begun_cpu_s,
        time.monotonic() - begun_s,
        time.process_time() - begun_cpu_s,
    )
    assert (counter.records, counter.bytes) == (records, records * VALUE_BYTES)
    replica.close()
    channels.close()
    loop.close()
    return took


def measure(root: Path, records: int, per_batch: int) -> str:
    """One line of the report."""
    directory = root / f"replay-{per_batch}"
    write_log(directory, records, per_batch)
    took = replay(directory, records)
    return (
        f"replay of {records} records, {per_batch} per batch: opened after {took.opened_s:.1f} s"
        f" ({took.opened_cpu_s:.1f} s of CPU), applied after {took.applied_s:.1f} s"
        f" ({took.applied_cpu_s:.1f} s of CPU)"
    )


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    per_batch = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        print(measure(Path(name), records, per_batch))


if __name__ == "__main__":
    main()
