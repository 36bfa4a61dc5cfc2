"""Bulk reading by one consumer and by four at once, beside Apache Kafka: ``python -m bench.consumers``.

Each consumer is librdkafka in a process of its own and reads all records of one topic, several times over;
each system's first pass is not counted (a JVM compiles, a cluster makes its offsets topic). Prints MB/s of
all consumers together and the CPU seconds per GB of the nodes and of the clients: what bounds the figure.
Writes ``bench/results/consumers.txt``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench import workloads
from bench.systems import ROOT, SYSTEMS, System

TOPIC, PARTITIONS = "read-often", 6


def read_all(bootstrap: str, records: int) -> None:
    """One consumer, in a process of its own: prints the seconds that it took and its CPU seconds."""
    consumer = Consumer(workloads.bulk_consumer(bootstrap))
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    began, count, before = time.monotonic(), 0, _cpu_seconds()
    while count < records:
        count += len(consumer.consume(10_000, timeout=1))
    took = time.monotonic() - began
    print(json.dumps([took, _cpu_seconds() - before]))
    consumer.close()


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def one_pass(system: System, consumers: int, records: int) -> tuple[float, float, float]:
    """MB/s of all consumers, and CPU seconds per GB of the nodes and of the clients."""
    command = [sys.executable, "-m", "bench.consumers", "--read", system.bootstrap]
    command += ["--records", str(records)]
    before = system.cpu_seconds()
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) for _ in range(consumers)
    ]
    told = [json.loads(child.communicate()[0]) for child in children]
    used = system.cpu_seconds() - before
    gb = consumers * records * len(workloads.RECORD) / 1e9
    return gb * 1000 / max(took for took, _ in told), used / gb, sum(cpu for _, cpu in told) / gb


def fill(system: System, records: int) -> None:
    workloads.create_topic(system, TOPIC, PARTITIONS)
    client = workloads.producer(system, **{"linger.ms": 5, "batch.size": 1_000_000})
    workloads.first_ack(system, TOPIC)
    workloads.produce_all(client, TOPIC, records, PARTITIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--systems", default="kafka,barnabas")
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read", metavar="BOOTSTRAP", help="be one of the consumers")
    options = parser.parse_args()
    if options.read is not None:
        read_all(options.read, options.records)
        return
    lines = [f"# python -m bench.consumers, load average {os.getloadavg()[0]:.1f} before"]
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.systems.split(","):
            system = SYSTEMS[name](Path(scratch) / name)
            try:
                workloads.start(system, measure=False)
                fill(system, options.records)
                for consumers in (1, 4):
                    one_pass(system, consumers, options.records)
                    found = [
                        one_pass(system, consumers, options.records) for _ in range(options.rounds)
                    ]
                    rates, nodes, clients = zip(*found, strict=True)
                    lines.append(
                        f"{name}, {consumers} at once: {statistics.median(rates):.0f} MB/s"
                        f" ({min(rates):.0f}-{max(rates):.0f}); CPU per GB: nodes"
                        f" {statistics.median(nodes):.2f} s, clients {statistics.median(clients):.2f} s"
                    )
                    print(lines[-1], flush=True)
            finally:
                system.stop()
    (ROOT / "bench" / "results" / "consumers.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
