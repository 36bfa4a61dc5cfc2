"""``format("barnabas")`` beside Spark's own Kafka connector: the same jobs on the same topics, in turn.

Usage: ``python -m bench.spark [--rows 5000000] [--rounds 3] [--only NAME,...]``. A round runs a job by the
one and then by the other; the first round warms up, of the others the median counts.
Where rows differ it fails, and where it is not through after ``--minutes``. A run of all of them writes
``bench/results/spark.txt``.

The connector's jars come by ``make peers``; built for Spark 4.0, its streams do not run on a later one, so it
runs in an environment of its own, which this makes in ``build/spark40`` by pip.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.cluster import Cluster

ROOT = Path(__file__).parents[1]
JARS = ROOT / "peers" / "spark"
ENVIRONMENT = ROOT / "build" / "spark40"
PYSPARK = "pyspark==4.0.1"
RESULTS = ROOT / "bench" / "results" / "spark.txt"
PARTITIONS = 6
RATE = 1000
LATENCY_S = 30.0
SETTLE_S = 5.0
OURS, PEER = "barnabas", "kafka"


class Session:
    """A process of :mod:`bench.spark_session`."""

    def __init__(self, name: str, bootstrap: str, directory: Path) -> None:
        folder = directory / f"session-{name}-{time.monotonic_ns()}"
        folder.mkdir()
        python, jars = sys.executable, ""
        if name == PEER:
            python = str(ENVIRONMENT / "bin" / "python")
            jars = ",".join(str(each) for each in sorted(JARS.glob("*.jar")))
        environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
        environment["PYSPARK_PYTHON"] = python
        self._process = subprocess.Popen(
            [python, str(ROOT / "bench" / "spark_session.py"), name, bootstrap, str(folder), jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(folder / "log", "wb"),  # noqa: SIM115  the process has it
            text=True,
            env=environment,
        )
        self.name = name
        self.version = self._answer()["version"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                if "error" in found:
                    raise SystemExit(f"{self.name}: {found['error']}")
                return found
        raise SystemExit(f"the session of {self.name} ended")

    def run(self, job: str, **arguments: Any) -> tuple[float, Any]:
        """Seconds, and what it found."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"job": job, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return answer["seconds"], answer["found"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Bench:
    """Topics, sessions and figures of one run."""

    def __init__(self, bootstrap: str, directory: Path, options: argparse.Namespace) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.options = options
        self.lines: list[str] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._made = 0
        self.sessions = {name: Session(name, bootstrap, directory) for name in (OURS, PEER)}

    def topic(self, partitions: int = PARTITIONS) -> str:
        self._made += 1
        name = f"bench-{self._made}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    def out(self) -> str:
        self._made += 1
        return str(self.directory / f"out-{self._made}")

    def filled(self, rows: int, partitions: int = PARTITIONS, **settings: Any) -> str:
        """A topic of JSON records of 81 bytes, evenly over its partitions."""
        name = self.topic(partitions)
        self.fill(name, range(rows), partitions, **settings)
        return name

    def fill(self, name: str, numbers: range, partitions: int, **settings: Any) -> None:
        given = {"compression.type": "lz4", "linger.ms": 50, "batch.size": 1 << 19, **settings}
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "queue.buffering.max.messages": 500_000, **given}
        )
        for at, number in enumerate(numbers):
            while True:
                try:
                    producer.produce(
                        name, record(number), partition=at * partitions // len(numbers)
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()

    def say(self, line: str) -> None:
        print(line, flush=True)
        self.lines.append(line)

    def compare(self, title: str, rows: int, jobs: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Play `jobs` (by session, or ``session:variant``) in turn, note rates; what was found last."""
        took: dict[str, list[float]] = {}
        found: dict[str, Any] = {}
        for round_ in range(self.options.rounds + 1):
            for who, job in jobs.items():
                arguments = {key: each() if callable(each) else each for key, each in job.items()}
                seconds, answer = self.sessions[who.split(":")[0]].run(**arguments)
                found[who] = (answer, arguments)
                if round_:
                    took.setdefault(who, []).append(seconds)
        medians = {who: statistics.median(each) for who, each in took.items()}
        peer = medians[PEER]
        for who, each in medians.items():
            spread = f"{min(took[who]):.2f}-{max(took[who]):.2f} s"
            self.say(
                f"{title:34s} {who:24s} {rows / each / 1e6:8.3f} M/s  {each:7.2f} s ({spread})"
                f"  ratio {peer / each:5.2f}"
            )
        return found


def record(number: int) -> bytes:
    flight = f'"flight":"LH{number % 9000:04d}","origin":"JFK"'
    text = f'{{"id":{number:8d},{flight},"delay":{number % 90:2d},"at":{number:9d}}}'
    return text.ljust(81).encode()


def same(what: str, found: dict[str, Any]) -> None:
    """Fails where two systems found different rows."""
    values = {json.dumps(each) for each in found.values()}
    if len(values) != 1:
        raise SystemExit(f"{what}: rows differ: {found}")


def digest(folder: str, key: str) -> list[Any]:
    """Rows of a Parquet table, whatever their order: their number and a hash."""
    table = pq.read_table(folder, partitioning=None).sort_by(key).combine_chunks()
    names = sorted(table.column_names)
    plain = pa.schema([pa.field(each, table.schema.field(each).type) for each in names])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain) as writer:
        writer.write_table(pa.table([table.column(each) for each in names], schema=plain))
    return [table.num_rows, hashlib.sha256(sink.getvalue()).hexdigest()]


def first(bench: Bench, topic: str) -> None:
    """The first query of sessions that have just been started."""
    took: dict[str, list[float]] = {OURS: [], PEER: []}
    for _ in range(max(bench.options.rounds, 1)):
        for name, each in took.items():
            session = Session(name, bench.bootstrap, bench.directory)
            each.append(session.run("count", topic=topic)[0])
            session.close()
    ours, peer = statistics.median(took[OURS]), statistics.median(took[PEER])
    bench.say(
        f"{'first query, count':34s} {ours:.2f} s beside {peer:.2f} s  ratio {peer / ours:5.2f}"
    )


def reads(bench: Bench, topic: str) -> None:
    rows = bench.options.rows
    job = {"job": "count", "topic": topic}
    narrowed: dict[str, Any] = {**job, "narrowed": True}
    jobs = {OURS: job, f"{OURS}:narrowed": narrowed, PEER: job}
    found = bench.compare("count", rows, jobs)
    same("count", {who: each[0] for who, each in found.items()})
    job = {"job": "scan", "topic": topic}
    found = bench.compare("scan of value and offset", rows, {OURS: job, PEER: job})
    same("scan", {who: each[0] for who, each in found.items()})


def tables(bench: Bench, topic: str) -> None:
    rows = bench.options.rows
    job = {"job": "json_table", "topic": topic, "out": bench.out}
    found = bench.compare("JSON to typed columns, Parquet", rows, {OURS: job, PEER: job})
    same("typed rows", {who: digest(each[1]["out"], "id") for who, each in found.items()})
    job = {"job": "stream_table", "topic": topic, "out": bench.out}
    jobs = {OURS: job, f"{OURS}:land": {**job, "job": "land"}, PEER: job}
    found = bench.compare("stream AvailableNow, Parquet", rows, jobs)
    same("streamed rows", {who: digest(each[1]["out"], "value") for who, each in found.items()})


def copies(bench: Bench, topic: str) -> None:
    job = {"job": "stream_topic", "topic": topic, "target": bench.topic, "out": bench.out}
    jobs = {
        f"{OURS}:at-least-once": {**job, "delivery": "at-least-once"},
        f"{OURS}:exactly-once": {**job, "delivery": "exactly-once"},
        f"{OURS}:tasks": {**job, "delivery": "tasks"},
        PEER: {**job, "delivery": ""},
    }
    found = bench.compare("stream topic to topic", bench.options.rows, jobs)
    ask = bench.sessions[OURS]
    wanted = ask.run("values", topic=topic)[1]
    for who, (_, arguments) in found.items():
        same(
            f"copied by {who}",
            {who: ask.run("values", topic=arguments["target"])[1], "source": wanted},
        )


def shapes(bench: Bench, topic: str) -> None:
    many = bench.filled(500 * 20, 500)
    job = {"job": "scan", "topic": many}
    found = bench.compare("500 partitions of 20 rows", 500 * 20, {OURS: job, PEER: job})
    same("many partitions", {who: each[0] for who, each in found.items()})
    single: dict[str, Any] = {"linger.ms": 0, "batch.num.messages": 1}
    ones = bench.filled(bench.options.ones, **single)
    job = {"job": "scan", "topic": ones}
    found = bench.compare("batches of one record", bench.options.ones, {OURS: job, PEER: job})
    same("batches of one", {who: each[0] for who, each in found.items()})
    small: dict[str, Any] = {"job": "small_triggers", "topic": topic, "out": bench.out}
    small |= {"offsets": 1000, "batches": 20}
    bench.compare("1,000 offsets per trigger", 20_000, {OURS: small, PEER: small})


def handover(bench: Bench) -> None:
    """A query with one checkpoint, run by the connector and by format barnabas in turn, and back."""
    for order in ((PEER, OURS, PEER), (OURS, PEER, OURS)):
        topic, out = bench.topic(), bench.out()
        for turn, who in enumerate(order):
            bench.fill(topic, range(turn * 1000, (turn + 1) * 1000), PARTITIONS)
            bench.sessions[who].run("stream_table", topic=topic, out=out)
        found = sorted(pq.read_table(out, partitioning=None).column("value").to_pylist())
        same(f"handed over {order}", {"table": len(found), "topic": 3000})
        if found != sorted(record(each) for each in range(3000)):
            raise SystemExit(f"handed over {order}: rows differ")
        bench.say(f"a checkpoint handed over {' -> '.join(order)}: each of 3,000 rows once")


def latency(bench: Bench) -> None:
    """From a record's making to a consumer of the target, at RATE records a second."""
    figures = {}
    ways = {
        f"{OURS}:at-least-once": "at-least-once",
        PEER: "",
        f"{OURS}:exactly-once": "exactly-once",
        f"{OURS}:tasks": "tasks",
    }
    for who, delivery in ways.items():
        session = bench.sessions[who.split(":")[0]]
        topics = bench.topic(), bench.topic()
        session.run(
            "start_copy", topic=topics[0], target=topics[1], out=bench.out(), delivery=delivery
        )
        took = followed(bench.bootstrap, *topics)
        found = session.run("stop_copy")[1]
        cuts = statistics.quantiles(took, n=100)
        figures[who] = cuts[49], cuts[98]
        bench.say(
            f"{f'latency at {RATE} records/s':34s} {who:24s} p50 {cuts[49]:6.0f} ms  p99 {cuts[98]:6.0f} ms"
            f"  micro-batch p50 {found['batch_ms']} ms  ({len(took)} records)"
        )
        phases = ", ".join(f"{phase} {took}" for phase, took in found["phases_ms"].items())
        bench.say(f"{'':34s} {who:24s} medians of a batch's phases, ms: {phases}")
    for who, (p50, p99) in figures.items():
        if who != PEER:
            peer = figures[PEER]
            bench.say(
                f"{'':34s} {who:24s} of the peer's: p50 {p50 / peer[0]:.2f}, p99 {p99 / peer[1]:.2f}"
            )


def followed(bootstrap: str, source: str, target: str) -> list[float]:
    """Milliseconds of each record that was made after the copy had settled."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest",
         "isolation.level": "read_committed", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([target])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    began, made, took = time.monotonic(), 0, []
    wanted = int(RATE * (SETTLE_S + LATENCY_S))
    received = 0
    while received < wanted:
        due = min(int((time.monotonic() - began) * RATE), wanted)
        for _ in range(due - made):
            producer.produce(source, str(time.monotonic_ns()).encode())
        made = due
        producer.poll(0)
        for message in consumer.consume(10_000, 0.01):
            if message.error() is None:
                received += 1
                if received > RATE * SETTLE_S:
                    took.append((time.monotonic_ns() - int(message.value() or b"0")) / 1e6)
        if time.monotonic() - began > 6 * (SETTLE_S + LATENCY_S):
            raise SystemExit(f"{received} of {wanted} records came")
    consumer.close()
    return took


def prepared() -> None:
    """The connector's environment. Exits where its jars are missing."""
    if len(list(JARS.glob("*.jar"))) < 4:
        raise SystemExit("Spark's connector is not in peers/spark: run `make peers`")
    if not (ENVIRONMENT / "bin" / "spark-submit").exists():
        venv.create(ENVIRONMENT, with_pip=True)
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", PYSPARK]
        subprocess.run(pip, check=True)


def out_of_time(minutes: float, *_: object) -> None:
    raise SystemExit(f"not through after {minutes:g} minutes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--ones", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0, help="fails when they are over")
    parser.add_argument("--only", default="reads,tables,copies,shapes,handover,latency,first")
    options = parser.parse_args()
    prepared()
    signal.signal(signal.SIGALRM, partial(out_of_time, options.minutes))
    signal.alarm(int(options.minutes * 60))
    only = options.only.split(",")
    with tempfile.TemporaryDirectory() as name, Cluster(nodes=1) as cluster:
        bench = Bench(cluster.bootstrap, Path(name), options)
        versions = {who: each.version for who, each in bench.sessions.items()}
        bench.say(
            f"{options.rows:,} JSON records of 81 B, lz4, {PARTITIONS} partitions, one node, local[2]"
        )
        bench.say(
            f"pyspark {versions}; {options.rounds} rounds after one, medians; load average {os.getloadavg()}"
        )
        topic = bench.filled(options.rows)
        jobs = {
            "reads": reads,
            "tables": tables,
            "copies": copies,
            "shapes": shapes,
            "first": first,
        }
        for each, job in jobs.items():
            if each in only:
                job(bench, topic)
        if "handover" in only:
            handover(bench)
        if "latency" in only:
            latency(bench)
        bench.say(f"load average at the end {os.getloadavg()}")
        for session in bench.sessions.values():
            session.close()
    if options.only == parser.get_default("only"):
        RESULTS.write_text("\n".join(bench.lines) + "\n")


if __name__ == "__main__":
    main()
