"""The jobs of examples/pipelines, as they are shipped: files, topics, SQL, Python, tables, dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.jobs.job_file import Job, load
from barnabas.pipeline.jobs.job_run import JobRun
from barnabas.pipeline.jobs.job_status import status_of
from barnabas.pipeline.jobs.tables.compaction import compact_tables
from tests.spark.checkpoints import uncommit
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
TOPICS = ("flights", "loud-flights", "flights-json", "late-flights", "flights-dead")


@pytest.fixture(scope="module", autouse=True)
def topics(admin: AdminClient) -> None:
    made = admin.create_topics([NewTopic(each, 2, -1) for each in TOPICS])
    for each in made.values():
        each.result(30)


@pytest.fixture
def jobs(bootstrap: str, tmp_path: Path, spark: SparkSession) -> Jobs:
    return Jobs(bootstrap, tmp_path, spark)


class Jobs:
    def __init__(self, bootstrap: str, directory: Path, spark: SparkSession) -> None:
        self._environment = {"KAFKA": bootstrap, "DATA": str(directory)}
        self._spark = spark
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

    def load(self, name: str) -> Job:
        return load(str(EXAMPLES / f"{name}.toml"), self._environment)

    def run(self, name: str) -> Job:
        job = self.load(name)
        JobRun(job, self._spark, lambda line: None).run(available_now=True)
        return job


def test_lines_of_files_go_through_topics_and_sql_to_a_table(
    jobs: Jobs, bootstrap: str, tmp_path: Path
) -> None:
    import pyarrow.dataset as ds

    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for part, lines in enumerate(("ua 1\n\naa 2\n", "dl 3\n")):
        (incoming / f"{part}.txt").write_text(lines)
    jobs.run("files_to_topic")
    lines_in = sorted((each.value or b"").decode() for each in read(bootstrap, "flights"))
    assert lines_in == ["aa 2", "dl 3", "ua 1"]
    jobs.run("topic_to_topic")
    table = jobs.run("topic_to_table")
    loud = sorted((each.value or b"").decode() for each in read(bootstrap, "loud-flights"))
    assert loud == ["AA 2", "DL 3", "UA 1"]
    landed = ds.dataset(tmp_path / "tables" / "flights", format="parquet").to_table()
    assert sorted(landed["flight"].to_pylist()) == lines_in
    assert sum(each["lag"] for each in status_of(table)["partitions"]) == 0


def test_typed_values_become_an_upserted_table_and_dead_letters(
    jobs: Jobs, bootstrap: str, tmp_path: Path
) -> None:
    from pyiceberg.catalog import load_catalog

    def flight(number: int, delay: int) -> bytes:
        return json.dumps({"id": number, "carrier": "UA", "delay": delay}).encode()

    write(bootstrap, "flights-json", [flight(1, 5), flight(2, 0), b"{broken"], partition=0)
    write(bootstrap, "flights-json", [flight(1, 7)], partition=0)
    jobs.run("dead_letters")
    jobs.run("latest_to_iceberg")
    write(bootstrap, "flights-json", [flight(2, 9), b"[]", flight(3, 1)], partition=0)
    jobs.run("dead_letters")
    job = jobs.run("latest_to_iceberg")
    late = [json.loads(each.value or b"") for each in read(bootstrap, "late-flights")]
    assert sorted((each["id"], each["delay"]) for each in late) == [(1, 5), (1, 7), (2, 9), (3, 1)]
    dead = read(bootstrap, "flights-dead")
    assert sorted(each.value or b"" for each in dead) == [b"[]", b"{broken"]
    assert all(dict(each.headers)["__connect.errors.topic"] == b"flights-json" for each in dead)
    (sink,) = job.sinks
    catalog = load_catalog("default", **sink.catalog)

    def latest() -> list[tuple[int, int]]:
        rows = catalog.load_table(sink.place).scan().to_arrow().to_pylist()
        return sorted((each["id"], each["delay"]) for each in rows)

    assert latest() == [(1, 7), (2, 9), (3, 1)]
    uncommit(job.checkpoint, 1)
    jobs.run("latest_to_iceberg")
    assert latest() == [(1, 7), (2, 9), (3, 1)]
    compact_tables(job, "", 1 << 20)
    assert latest() == [(1, 7), (2, 9), (3, 1)]
