"""Tasks that write the files of a table themselves: each row once, whatever runs twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.jobs.batch_files import Batch
from barnabas.pipeline.jobs.job_file import load
from barnabas.pipeline.jobs.job_run import JobRun
from barnabas.pipeline.jobs.landing import land, land_batch, landing_frame
from barnabas.pipeline.jobs.parquet_table import ParquetTable
from tests.spark.conftest import MakeTopic
from tests.spark.topics import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JOB = """
name = "copy"
checkpoint = "{directory}/checkpoint-{name}"
[cluster]
kafka.bootstrap.servers = "{bootstrap}"
[source]
topics = ["{topic}"]
[source.options]
startingOffsets = "earliest"
value.format = "json"
value.schema = "n BIGINT, s STRING"
[dead_letters]
topic = "{dead}"
[[sink]]
parquet = "{directory}/table-{name}"
{landing}
"""


def values_of(table: Path) -> list[int]:
    return sorted(int(each) for each in pq.read_table(table).column("value").to_pylist())


def reading(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "40",
    }


def test_a_batch_that_is_repeated_lands_its_rows_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    write(bootstrap, topic, (b"%d" % n for n in range(100)))
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    def run() -> None:
        query = land(
            spark, reading(bootstrap, topic), table=str(table), checkpoint=str(checkpoint),
            available_now=True,
        )  # fmt: skip
        query.awaitTermination()

    run()
    assert ParquetTable(str(table)).batches("land") == [0, 1, 2]
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    write(bootstrap, topic, (b"%d" % n for n in range(100, 120)))
    run()
    assert values_of(table) == list(range(120))
    assert not list(table.glob("_staged/landed/*"))


def test_the_rows_of_a_landed_table_are_those_of_a_written_one(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    write(bootstrap, topic, (b'{"n": %d, "s": "x%d"}' % (n, n) for n in range(50)))
    write(bootstrap, topic, [b"bad"])
    # As `barnabas pipeline run` has it.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for name, landing in (("landed", "land = true"), ("plain", "")):
        file = tmp_path / f"{name}.toml"
        file.write_text(
            JOB.format(
                directory=tmp_path,
                name=name,
                bootstrap=bootstrap,
                topic=topic,
                dead=make_topic(1),
                landing=landing,
            )
        )
        run = JobRun(load(str(file)), spark, lambda line: None)
        run.run(available_now=True)
        assert run.rows >= 50
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    tables = [pq.read_table(tmp_path / f"table-{each}") for each in ("landed", "plain")]
    rows = [
        sorted(json.dumps(row, default=str, sort_keys=True) for row in each.to_pylist())
        for each in tables
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 50


def test_a_batch_of_another_plan_is_refused_before_it_is_read(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    table = ParquetTable(str(tmp_path / "table"))
    frame = landing_frame(spark, reading(bootstrap, topic), table.path)
    assert frame.columns == ["file", "rows", "bytes"]
    empty = spark.createDataFrame([], "file string, rows bigint, bytes bigint")
    assert land_batch(table, empty, Batch("land", 0, "a")) == 0
    assert land_batch(table, empty, Batch("land", 0, "a")) is None
    with pytest.raises(LedgerError, match="another one"):
        land_batch(table, empty, Batch("land", 0, "b"))
