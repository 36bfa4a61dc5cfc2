"""Topic to Parquet table with the reading tasks as writers: each micro-batch once, no row through the JVM.

The rows of the query name files (:mod:`barnabas.pipeline.read.landing`). The driver collects them, a row for
each task, and moves the files into the folder that becomes the batch: the commit of a Parquet table
(:mod:`parquet_table`), with its digest of the plan. Spark keeps the schedule and the checkpoint.

>>> land(spark, {"kafka.bootstrap.servers": "...", "subscribe": "flights"},  # doctest: +SKIP
...      table="/data/tables/flights", checkpoint="/data/checkpoints/flights").awaitTermination()
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.jobs.batch_files import STAGED, Batch
from barnabas.pipeline.jobs.job_offsets import digest_of
from barnabas.pipeline.jobs.parquet_table import ParquetTable
from barnabas.pipeline.option_names import LAND_GOOD_ONLY, LAND_PATH, LAND_SCHEMA
from barnabas.pipeline.options import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "barnabas"


def landing_frame(
    spark: SparkSession, options: Mapping[str, str], table: str, *, good_only: bool = False
) -> DataFrame:
    """A stream of files with what `options` read; a row for each task: file, rows, bytes."""
    columns = spark.readStream.format(FORMAT).options(**options).load().schema
    own = {LAND_PATH: table, LAND_SCHEMA: columns.json(), LAND_GOOD_ONLY: str(good_only).lower()}
    return spark.readStream.format(FORMAT).options(**options).options(**own).load()


def land_batch(table: ParquetTable, frame: DataFrame, batch: Batch) -> int | None:
    """Make a batch of the table of what the frame's tasks write; rows, or None where it was there.
    Raises `StagingError`, `LedgerError`."""
    rows = 0

    def staged() -> Path:
        nonlocal rows
        files = [each for each in frame.collect() if each.file]
        rows = sum(each.rows for each in files)
        return gathered([each.file for each in files], table.path, batch)

    return rows if table.take(staged, batch) else None


def gathered(files: list[str], table: str, batch: Batch) -> Path:
    """A folder with the files and nothing else. Raises `StagingError`."""
    folder = Path(table, STAGED, f"{batch.number}-{uuid.uuid4().hex}")
    folder.mkdir(parents=True)
    for each in files:
        try:
            os.rename(each, folder / Path(each).name)
        except FileNotFoundError as error:
            raise StagingError(
                f"{each} is not there: driver and executors do not share {table}"
            ) from error
    return folder


def land(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    table: str,
    checkpoint: str,
    name: str = "land",
    available_now: bool = False,
    trigger: str | None = None,
) -> Any:
    """Start the query; it is Spark's `StreamingQuery`. `options` are those of ``format("barnabas")``, `name`
    the job's in the table and the same for good, `trigger` as ``10 seconds``."""
    table, checkpoint = absolute(table) or table, absolute(checkpoint) or checkpoint
    target = ParquetTable(table)
    target.begin()

    def write(frame: DataFrame, number: int) -> None:
        land_batch(target, frame, Batch(name, number, digest_of(checkpoint, number)))

    frame = landing_frame(spark, {"checkpointLocation": checkpoint, **options}, table)
    writer = frame.writeStream.queryName(name).foreachBatch(write)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    return writer.option("checkpointLocation", checkpoint).start()
