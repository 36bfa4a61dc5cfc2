"""A share group of ten beside Apache Kafka 4.4.0: ``python -m bench.share``.

Ten members of Kafka's Java client, in one process, accept all records of a topic of six partitions and three
replicas one by one. Prints records/s, from the first delivery to the last answered acceptance, and the CPU
seconds of the nodes per million records, for both systems in turn; each system's first pass is not counted.
Writes ``bench/results/share.txt``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench.systems import ROOT, Barnabas, Kafka44, System
from tests.interop.java_programs import Program
from tests.process.launch import barnabas

PARTITIONS, MEMBERS = 6, 10
PATIENCE_S = 60
WARM_UP = 100_000


def run(*words: str) -> None:
    done = barnabas(*words, timeout_s=120)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def wait_until_ready(bootstrap: str) -> None:
    """Until three brokers are known."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if len(client.list_topics(timeout=5).brokers) == 3:
                return
        except Exception:  # noqa: BLE001 - none listens yet
            time.sleep(0.2)
    raise SystemExit("the cluster is not ready")


def prepare(
    bootstrap: str, topic: str, group: str, records: int, settings: Mapping[str, str]
) -> None:
    """The topic with its records of 100 bytes, and the group's configuration."""
    where = ("--bootstrap", bootstrap)
    run("topics", "create", topic, "-p", str(PARTITIONS), "-r", "3", *where)
    values = {"share.auto.offset.reset": "earliest", **settings}
    options = [word for item in values.items() for word in ("-s", "=".join(item))]
    run("configs", "alter", "--group", group, *options, *where)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "log_level": 0}
    )
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"%0100d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("the records were not written")


def one_pass(system: System, topic: str, records: int, log: Path) -> tuple[float, float]:
    """Records/s, and CPU seconds of the nodes per million."""
    prepare(system.bootstrap, topic, topic, records, {})
    before = system.cpu_seconds()
    members = Program(
        "ShareMany", system.bootstrap, topic, topic, str(MEMBERS), str(records), str(PATIENCE_S),
        log=log, options=("-Xmx600m",),
    )  # fmt: skip
    try:
        lines = members.wait_for_all_lines(600)
    finally:
        members.kill()
    used = system.cpu_seconds() - before
    accepted, *wrong, _, took_ms = map(int, lines[-1].split()[1:])
    if accepted < records or any(wrong):
        raise SystemExit(f"{system.name}: {lines[-1]}")
    return records / took_ms * 1000, used / records * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    text = [f"{asked.records:,} records of 100 bytes, {MEMBERS} members, {PARTITIONS} partitions"]
    with tempfile.TemporaryDirectory(prefix="share-") as name:
        for kind in (Kafka44, Barnabas):
            system = kind(Path(name) / kind.name)
            system.start()
            system.launch()
            try:
                wait_until_ready(system.bootstrap)
                one_pass(system, "warm", WARM_UP, Path(name) / "members.txt")
                found = [
                    one_pass(system, f"work-{turn}", asked.records, Path(name) / "members.txt")
                    for turn in range(asked.rounds)
                ]
            finally:
                system.stop()
            rates, used = zip(*found, strict=True)
            text.append(
                f"{kind.name}: {statistics.median(rates):,.0f} records/s"
                f" ({min(rates):,.0f}-{max(rates):,.0f}),"
                f" {statistics.median(used):.1f} CPU s per million"
            )
            print(text[-1], flush=True)
    (ROOT / "bench" / "results" / "share.txt").write_text("\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
