"""Minutes of kills while one job writes every kind of sink: each row once, by three readers of each.

`barnabas pipeline run` on a standalone master with two workers writes what it reads to a topic (exactly
once), a Parquet table, and Delta and Iceberg tables by append and by upsert; what cannot be decoded goes to a
topic of dead letters. In turn a worker with its executor, the driver, the leader of a partition of the
written topic and the coordinator of its transactions are killed with SIGKILL, and started again.

    python -m bench.spark_sink_kills [--minutes 15] [--every 20] [--rate 100]

A kill waits until both queries of the job have made a batch since the last one. One record in twenty cannot
be decoded. Each key has two records, of which the tables by upsert keep the last good one. Prints rows lost,
doubled and others of each sink by each reader, which have to be none.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from barnabas.testing.cluster import Cluster
from bench.spark_kills import Run, play, verdict
from bench.spark_sink_readers import (
    Readers,
    delta_readers,
    iceberg_readers,
    parquet_readers,
    topic_readers,
)
from tests.spark.loopback_session import LOOPBACK
from tests.spark.standalone import StandaloneCluster, kill_group

BAD_OF = 20
"""One record of so many cannot be decoded."""
JOB = """
name = "sinks"
checkpoint = "file://{directory}/checkpoint"

[cluster]
kafka.bootstrap.servers = "{bootstrap}"

[source]
topics = ["rows"]

[source.options]
startingOffsets = "earliest"
maxOffsetsPerTrigger = 20000
columns = "key,value,offset"
value.format = "json"
value.schema = "n BIGINT"

[dead_letters]
topic = "dead"

[[sink]]
topic = "copied"

[[sink]]
parquet = "file://{directory}/parquet"

[[sink]]
delta = "file://{directory}/delta"

[[sink]]
delta = "file://{directory}/delta-upserted"
upsert_by = "key"
order_by = "offset"

[[sink]]
iceberg = "air.appended"
{catalog}

[[sink]]
iceberg = "air.upserted"
upsert_by = "key"
order_by = "offset"
{catalog}
"""
SETTINGS = {**LOOPBACK, "spark.executor.memory": "512m", "spark.executor.cores": "1"}


def is_good(number: int) -> bool:
    return number % BAD_OF != BAD_OF - 1


def catalog_of(directory: Path) -> dict[str, str]:
    warehouse = directory / "warehouse"
    warehouse.mkdir(exist_ok=True)
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{warehouse}",
    }


class SinkRun(Run):
    """A run of the job with all sinks."""

    topics = ("rows", "copied", "dead")
    catch_up_s = 600.0
    ends = False
    """Whether a driver that is started ends when it has written what is there."""

    def driver_command(self) -> list[str]:
        file = self.directory / "sinks.toml"
        if not file.exists():
            lines = [f'catalog.{k} = "{v}"' for k, v in catalog_of(self.directory).items()]
            given = {"directory": self.directory, "bootstrap": self.cluster.bootstrap}
            file.write_text(JOB.format(**given, catalog="\n".join(lines)))
        settings = [word for k, v in SETTINGS.items() for word in ("--conf", f"{k}={v}")]
        words = ["barnabas", "pipeline", "run", str(file), "--master", self.spark.url, *settings]
        return words + ["--available-now"] * self.ends

    def transactional_id(self) -> str:
        return "barnabas-sinks.copied"

    def produce(self, producer: Producer, number: int) -> None:
        value = b'{"n": %d}' if is_good(number) else b"bad %d"
        producer.produce("rows", value % number, key=b"%08d" % (number // 2))

    def batches(self) -> tuple[int, ...]:
        places = (self.directory / "checkpoint", self.directory / "checkpoint/dead_letters")
        return tuple(
            max((int(file.name) for file in place.glob("commits/[0-9]*")), default=-1) + 1
            for place in places
        )

    def catch_up(self) -> None:
        self.ends = True
        self.kill_driver()
        super().catch_up()

    def readers(self) -> dict[str, Readers]:
        catalog, bootstrap = catalog_of(self.directory), self.cluster.bootstrap
        return {
            "topic": topic_readers(bootstrap, "copied"),
            "Parquet": parquet_readers(self.directory / "parquet"),
            "Delta, appended": delta_readers(self.directory / "delta"),
            "Delta, upserted": delta_readers(self.directory / "delta-upserted"),
            "Iceberg, appended": iceberg_readers(catalog, "air.appended"),
            "Iceberg, upserted": iceberg_readers(catalog, "air.upserted"),
            "dead letters": topic_readers(bootstrap, "dead"),
        }

    def judge(self, made: int) -> bool:
        """Whether all sinks have what they must, by all readers. Prints each."""
        good = [number for number in range(made) if is_good(number)]
        wanted = dict.fromkeys(("Delta, upserted", "Iceberg, upserted"), upserted(good))
        wanted["dead letters"] = [number for number in range(made) if not is_good(number)]
        is_complete = True
        for sink, readers in self.readers().items():
            for reader, read in readers.items():
                is_complete &= verdict(f"{sink} by {reader}", read(), wanted.get(sink, good))
        return is_complete


def upserted(good: list[int]) -> list[int]:
    """The last number of each key."""
    return list({number // 2: number for number in good}.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--every", type=float, default=20)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument(
        "--late", type=float, default=60, help="seconds that a kill waits for batches"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Cluster(nodes=3) as cluster:
        directory = Path(name)
        with StandaloneCluster(directory / "spark") as spark:
            run = SinkRun(cluster, spark, directory, "auto")
            try:
                made = play(run, options)
                print(f"load average {', '.join(f'{one:.1f}' for one in os.getloadavg())}")
                run.catch_up()
            finally:
                kill_group(run.process)
            is_complete = run.judge(made)
            peaks = ", ".join(f"{kind} {size}" for kind, size in sorted(run.memory_mib.items()))
            print(f"{made:,} records, {run.drivers} drivers, batches {run.batches()}")
            print(f"peaks in MiB: {peaks}")
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
