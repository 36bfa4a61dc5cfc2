"""Idle members of share groups beside Apache Kafka 4.4.0, and the memory of records in flight.

Usage: ``python -m bench.share_idle [--systems barnabas,kafka] [--members 1000] [--groups 100]``.
Writes ``bench/results/share-idle.txt``. All members are of one client process (ours), with the heartbeats
that the coordinator asks for, and ask for records all the time. The figure is the CPU time of the three
nodes while nothing is produced. The memory is that of the leader's state of the records, as Python counts
it: held in the batches in which they were fetched, and with another count of deliveries for each record
than for its neighbours, which is the most.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

from barnabas.broker.share.share_partition import ShareLimits, SharePartition, Wanted
from barnabas.client.consumers.share_consumer import ShareConsumer
from barnabas.host.client import connect
from barnabas.share.delivery import DeliveryState, StateBatch
from bench import workloads
from bench.systems import ROOT, Barnabas, Kafka44, System

KINDS: dict[str, type[System]] = {"barnabas": Barnabas, "kafka": Kafka44}
PARTITIONS, PARTITION_RECORDS, BATCH = 5, 10_000, 500
RECORDS = PARTITIONS * PARTITION_RECORDS
LIMITS = ShareLimits(deliveries_max=5, in_flight_max=PARTITION_RECORDS, lock_ms=30_000, renews=True)
PATIENCE_S = 300
POLL_MS = 500


def held(batches: Sequence[StateBatch]) -> SharePartition:
    """A share partition of which one member holds as many records as it may."""
    machine = SharePartition(0, 1, 0, batches)
    for first in range(0, PARTITION_RECORDS, BATCH):
        fetched = [(first, first + BATCH - 1)]
        machine.acquire("member", Wanted(BATCH, BATCH), first, fetched, LIMITS, float(first))
    assert machine.in_flight.size == PARTITION_RECORDS
    return machine


def megabytes(batches: Sequence[StateBatch]) -> tuple[float, int]:
    """The memory of a million records in flight, and in how many pieces they are, by what `RECORDS` need."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    machines = [held(batches) for _ in range(PARTITIONS)]
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    pieces = sum(len(machine.in_flight) for machine in machines)
    return used / RECORDS, round(pieces * 1e6 / RECORDS)


def idle(system: System, members: int, groups: int, seconds: float) -> float:
    """Percent of a core that all nodes use while `members` in `groups` wait for records."""
    topic = "idle"
    with connect(system.bootstrap) as connected:
        connected.create_topic(topic, partitions=members // groups, replication_factor=1)
        consumers = [
            ShareConsumer(connected.client, f"idle-{number % groups}") for number in range(members)
        ]
        for consumer in consumers:
            consumer.subscribe([topic])

        def ask(duration_s: float) -> None:
            until = time.monotonic() + duration_s
            while time.monotonic() < until:
                for consumer in consumers:
                    consumer.poll()
                connected.run_for(POLL_MS)

        deadline = time.monotonic() + PATIENCE_S
        while not all(consumer.is_stable and consumer.assignment for consumer in consumers):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{sum(bool(c.assignment) for c in consumers)} have partitions")
            ask(1)
        ask(6)  # every member has heard that it is stable
        before, began = system.cpu_seconds(), time.monotonic()
        ask(seconds)
        return 100 * (system.cpu_seconds() - before) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--systems", default="barnabas,kafka")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    lines: list[str] = []

    def say(text: str) -> None:
        print(text, flush=True)
        lines.append(text)

    say(f"# python -m bench.share_idle, load average {os.getloadavg()[0]:.1f} before")
    state = int(DeliveryState.AVAILABLE)
    apart = [StateBatch(n, n, state, 1 + n % 2) for n in range(PARTITION_RECORDS)]
    for what, batches in (("in batches", []), ("each apart", apart)):
        used, pieces = megabytes(batches)
        say(f"memory  per million records in flight, {what}: {used:.1f} MB, {pieces:,} pieces")
    with tempfile.TemporaryDirectory() as scratch:
        for name in filter(None, options.systems.split(",")):
            system = KINDS[name](Path(scratch) / name)
            try:
                workloads.start(system, measure=False)
                used = idle(system, options.members, options.groups, options.seconds)
                say(
                    f"idle  {name}: {options.members} members in {options.groups} share groups:"
                    f" {used:.1f} % of a core"
                )
            finally:
                system.stop()
    (ROOT / "bench" / "results" / "share-idle.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
