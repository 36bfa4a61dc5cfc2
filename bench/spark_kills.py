"""Minutes of a kill every half minute, on a cluster of Spark's own: each record once in topic and in table.

A driver on a standalone master with two workers copies a topic to a topic (exactly once) and lands it in a
Parquet table, while records come. In turn a worker with its executor, the driver, the leader of a partition
and the transaction coordinator of the copy are killed with SIGKILL, and started again.

    python -m bench.spark_kills [--minutes 15] [--every 30] [--rate 500] [--task-transactions always]

A kill waits until both queries have made a batch since the last one. Prints rows lost and doubled, which have
to be none, and the largest memory of a node, of drivers and of executors with their Python workers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.cluster import Cluster
from tests.spark.loopback_session import loopback_session
from tests.spark.standalone import StandaloneCluster, kill_group
from tests.spark.topics import read

ROOT = Path(__file__).parents[1]


def driver(
    master: str, bootstrap: str, source: str, target: str, directory: str, task_transactions: str
) -> None:
    """The Spark driver that is killed and started again. Runs until the file ``end`` exists in `directory`,
    and then processes what is left in the topic `source`."""
    from barnabas.pipeline.jobs.landing import land

    settings = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    spark = loopback_session(master, settings, "ERROR")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": source,
        "startingOffsets": "earliest",
    }
    frame = spark.readStream.format("barnabas").options(**options).load()
    shared = f"file://{directory}"
    writer = frame.select("key", "value").writeStream.format("barnabas")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    writer = writer.option("taskTransactions", task_transactions)
    copy = writer.option("checkpointLocation", f"{shared}/copy").start()
    table = land(spark, options, table=f"{shared}/table", checkpoint=f"{shared}/land")
    while not Path(directory, "end").exists():
        for query in (copy, table):
            query.awaitTermination(0.5)  # raises the error of a query that failed
    for query in (copy, table):
        query.processAllAvailable()
        query.stop()
    spark.stop()


class Run:
    """The driver, the clusters that it works on, and the ways to kill parts of them."""

    topics: tuple[str, ...] = ("rows", "copied")
    """The one that is read, then those that are written."""
    catch_up_s = 300.0
    """How long the driver may take, after the last kill, until it has copied all records."""

    def __init__(
        self, cluster: Cluster, spark: StandaloneCluster, directory: Path, task_transactions: str
    ) -> None:
        self.task_transactions = task_transactions
        self.cluster, self.spark, self.directory = cluster, spark, directory
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for name in self.topics:
            self.admin.create_topics([NewTopic(name, 3, 3)])[name].result(60)
        self.drivers = 0
        self.memory_mib: dict[str, int] = {}
        """Kind of process → the largest resident memory of one of them."""
        self.process = self.start_driver()

    def start_driver(self) -> subprocess.Popen[bytes]:
        self.drivers += 1
        folder = self.directory / f"driver-{self.drivers}"
        folder.mkdir()
        with open(folder / "log", "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *self.driver_command()],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def driver_command(self) -> list[str]:
        """The module that is the driver, and its arguments."""
        arguments = [self.spark.url, self.cluster.bootstrap, *self.topics, str(self.directory)]
        return ["bench.spark_kills", "driver", *arguments, self.task_transactions]

    def transactional_id(self) -> str | None:
        """The one by which the copy writes; None before its first start."""
        metadata = self.directory / "copy" / "metadata"
        return f"barnabas-{json.loads(metadata.read_text())['id']}" if metadata.exists() else None

    def keep_driver(self) -> None:
        """Start the driver again if it ended by itself, for example because a task failed too often. Prints
        that."""
        if self.process.poll() is not None:
            print(f"driver {self.drivers} ended with {self.process.returncode}", flush=True)
            self.process = self.start_driver()

    def catch_up(self) -> None:
        """Wait until the driver has ended by itself, without an error."""
        deadline = time.monotonic() + self.catch_up_s
        while self.process.poll() != 0 and time.monotonic() < deadline:
            self.keep_driver()
            time.sleep(0.5)

    def kill_worker(self) -> None:
        self.spark.start_worker()
        self.spark.kill_oldest_worker()

    def kill_driver(self) -> None:
        kill_group(self.process)
        self.process = self.start_driver()

    def kill_leader(self) -> None:
        partitions = self.admin.list_topics(self.topics[1], 30).topics[self.topics[1]].partitions
        self.kill_node(partitions[random.randrange(len(partitions))].leader)

    def kill_coordinator(self) -> None:
        name = self.transactional_id()
        if name is None:
            return
        found = self.admin.list_topics("__transaction_state", 30).topics["__transaction_state"]
        if not found.partitions:
            print(f"no coordinator yet: {found.error}", flush=True)
            return
        self.kill_node(found.partitions[java_hash(name) % len(found.partitions)].leader)

    def kill_node(self, node: int) -> None:
        self.cluster.kill(node)
        time.sleep(3.0)  # how long the node is away
        self.cluster.restart(node)

    def produce(self, producer: Producer, number: int) -> None:
        producer.produce(self.topics[0], b"%d" % number)

    def batches(self) -> tuple[int, ...]:
        """Number of batches since the beginning: committed by the copy, and in the table."""
        copied = [int(each.name) for each in self.directory.glob("copy/commits/[0-9]*")]
        landed = [
            int(each.name.rpartition("-")[2]) for each in self.directory.glob("table/batch=*")
        ]
        return max(copied, default=-1) + 1, max(landed, default=-1) + 1

    def note_memory(self) -> None:
        """Update `memory_mib` with the processes of this run that exist now."""
        kinds = {self.process.pid: "driver"}
        kinds |= dict.fromkeys(self.spark.worker_pids, "executor")
        for node in self.cluster.node_ids:
            with suppress(ProcessLookupError):
                kinds[self.cluster.pid(node)] = "node"
        processes = dict(running())
        for pid, (_, command, peak_mib) in processes.items():
            above, kind = pid, None
            while above in processes and (kind := kinds.get(above)) is None:
                above = processes[above][0]
            if kind is None or (kind == "executor" and above == pid):
                continue
            if kind != "node":
                kind += ", JVM" if b"java" in command else ", Python"
            self.memory_mib[kind] = max(self.memory_mib.get(kind, 0), peak_mib)


def running() -> Iterator[tuple[int, tuple[int, bytes, int]]]:
    """All processes of the machine: id → (parent's id, command, largest resident memory so far in MiB)."""
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            command = (each / "cmdline").read_bytes().split(b"\0")[0]
            lines = (each / "status").read_text().splitlines()
        except OSError:
            continue  # it has ended
        said = dict(line.split(":", 1) for line in lines if ":" in line)
        if "VmHWM" in said:
            yield int(each.name), (int(said["PPid"]), command, int(said["VmHWM"].split()[0]) >> 10)


def java_hash(text: str) -> int:
    """Java's `String.hashCode` without its sign: Kafka finds a coordinator's partition by it."""
    value = 0
    for each in text:
        value = (value * 31 + ord(each)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def verdict(name: str, values: list[int], wanted: Collection[int]) -> bool:
    """Print how many of the numbers `wanted` are lost and doubled, and how many others there are. Returns
    whether none is."""
    counts = Counter(values)
    wrong = {
        "lost": len(set(wanted) - counts.keys()),
        "doubled": sum(count - 1 for count in counts.values()),
        "others": len(counts.keys() - set(wanted)),
    }
    said = ", ".join(f"{count} {what}" for what, count in wrong.items())
    print(f"{name}: {len(values):,} rows, {said}", flush=True)
    return not any(wrong.values())


def under_way(now: tuple[int, ...], before: tuple[int, ...], late_s: float) -> bool:
    """Whether the next kill may come: both queries have made a batch since the last kill, so it hits them at
    work. A kill that is late by more than it may be, `late_s` above 0, comes in any case."""
    return late_s > 0 or all(each > last for each, last in zip(now, before, strict=True))


def play(run: Run, options: argparse.Namespace) -> int:
    """Produce records and kill in turn until the time is over. Returns the number of records."""
    producer = Producer(
        {"bootstrap.servers": run.cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20}
    )
    kinds = itertools.cycle(("leader", "worker", "coordinator", "driver"))
    began = time.monotonic()
    due_s, noted_s, made, before = options.every, 0.0, 0, run.batches()
    while (now_s := time.monotonic() - began) < options.minutes * 60:
        for number in range(made, int(now_s * options.rate)):
            run.produce(producer, number)
            made = number + 1
        producer.poll(0.05)
        run.keep_driver()
        if now_s >= noted_s:
            noted_s = now_s + 1
            run.note_memory()
        if now_s >= due_s and under_way(run.batches(), before, now_s - due_s - options.late):
            due_s = max(due_s, now_s - options.every / 2) + options.every
            kind, before = next(kinds), run.batches()
            print(f"{now_s:4.0f} s: {kind}; {made:,} records, batches {before}", flush=True)
            getattr(run, f"kill_{kind}")()
    producer.flush()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument(
        "--late", type=float, default=60, help="seconds that a kill waits for batches"
    )
    parser.add_argument("--task-transactions", choices=("auto", "always", "never"), default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Cluster(nodes=3) as cluster:
        directory = Path(name)
        with StandaloneCluster(directory / "spark") as spark:
            run = Run(cluster, spark, directory, options.task_transactions)
            try:
                made = play(run, options)
                (directory / "end").touch()
                run.catch_up()
            finally:
                kill_group(run.process)
            copied = [int(each.value or b"-1") for each in read(cluster.bootstrap, run.topics[1])]
            landed = pq.read_table(directory / "table").column("value").to_pylist()
            is_complete = verdict("topic", copied, range(made))
            is_complete &= verdict("table", [int(each) for each in landed], range(made))
            peaks = ", ".join(f"{kind} {size}" for kind, size in sorted(run.memory_mib.items()))
            print(f"{made:,} records, {run.drivers} drivers; peaks in MiB: {peaks}")
    return 0 if is_complete else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["driver"]:
        driver(*sys.argv[2:])
    else:
        sys.exit(main())
