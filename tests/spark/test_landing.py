"""Tasks that write the files of a table themselves: each row once, whatever runs twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.jobs.job_file import load
from barnabas.pipeline.jobs.job_run import JobRun
from barnabas.pipeline.jobs.landing import Landing, LandingTable, land
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.parquet_table import ParquetTable
from tests.spark.checkpoints import uncommit
from tests.spark.conftest import MakeTopic
from tests.spark.topics import write
from tests.unit.pipeline.jobs.table_kinds import rows_of, table_of

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


def reading(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "40",
    }


def landing_table(kind: str, directory: Path) -> LandingTable:
    parts = ("topic", "partition")
    if kind == "parquet":
        return ParquetTable(str(directory / "parquet"), parts)
    return table_of(kind, directory, partition_by=parts, adds_columns=True)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_batch_that_is_repeated_lands_its_rows_once(
    kind: str, spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    checkpoint = tmp_path / "checkpoint"
    options = {**reading(bootstrap, topic), "columns": "value,topic,partition,timestamp"}

    def run(table: LandingTable, **more: str) -> None:
        query = land(
            spark, {**options, **more}, table=table, checkpoint=str(checkpoint), available_now=True
        )
        query.awaitTermination()

    write(bootstrap, topic, (b"%d" % n for n in range(60)))
    run(landing_table(kind, tmp_path))
    uncommit(checkpoint, 1)
    write(bootstrap, topic, (b"%d" % n for n in range(60, 70)))
    # The table grows by the columns that are read from here on; a folder of Parquet files has no schema.
    more = {} if kind == "parquet" else {"columns": "value,topic,partition,timestamp,offset"}
    run(landing_table(kind, tmp_path), **more)
    is_parquet = kind == "parquet"
    found = pq.read_table(tmp_path / "parquet") if is_parquet else rows_of(kind, tmp_path)
    assert sorted(int(each) for each in found["value"].to_pylist()) == list(range(70))
    assert set(found["topic"].to_pylist()) == {topic}
    assert {int(each) for each in found["partition"].to_pylist()} == {0, 1}
    assert pa.types.is_timestamp(found["timestamp"].type)
    if more:
        offsets = found["offset"].to_pylist()
        assert sum(each is not None for each in offsets) == 10
    assert not list(tmp_path.rglob("_staged/landed/**/*.parquet"))


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
    landing = Landing(spark, reading(bootstrap, topic), table)
    assert landing.frame.columns == ["file", "rows", "bytes"]
    empty = spark.createDataFrame([], "file string, rows bigint, bytes bigint")
    assert landing.take(empty, Batch("land", 0, "a")) == 0
    assert landing.take(empty, Batch("land", 0, "a")) is None
    with pytest.raises(LedgerError, match="another one"):
        landing.take(empty, Batch("land", 0, "b"))
