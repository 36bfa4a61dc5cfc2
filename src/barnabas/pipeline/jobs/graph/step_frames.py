"""Sources and steps of a job as Spark's frames.

Owns how a view comes to be: a source as it is read, with its watermark and without repeated keys; a step by
SQL over the views above it, or by a Python function of their frames. Each query has frames of its own, since
its reader keeps what it has read beside the query's checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.connect import is_connect
from barnabas.pipeline.jobs.graph.job_graph import JobStep, Watermark
from barnabas.pipeline.jobs.job_file import Job, Query, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOOD = "`_error` is null"
DATA = "data"

Read = Callable[[Source], "DataFrame"]


def rows_of(job: Job, query: Query, spark: SparkSession, read: Read) -> DataFrame:
    """The rows that go to the sinks of the query. Raises `PipelineError`."""
    frames: dict[str, DataFrame] = {}
    for source in job.sources_of(query):
        frame = read(source)
        if job.dead_letters is not None and "value.format" in source.options:
            frame = frame.where(GOOD)
        frame = marked(frame, source.name, source.watermark, source.deduplicate_by)
        frame.createOrReplaceTempView(source.name)
        frames[source.name.lower()] = frame
    if not job.is_graph:
        return _transformed(job, spark, frames[job.source.name.lower()])
    for step in job.graph.above(query.reads):
        frame = _step(job, step, spark, frames)
        frame = marked(frame, step.name, step.watermark, step.deduplicate_by)
        frame.createOrReplaceTempView(step.name)
        frames[step.name.lower()] = frame
    return frames[query.reads.lower()]


def _transformed(job: Job, spark: SparkSession, frame: DataFrame) -> DataFrame:
    if job.sql:
        return spark.sql(job.sql)
    if job.function:
        found: DataFrame = function_of(job.file, job.function, spark)(frame)
        return found
    return frame


def _step(job: Job, step: JobStep, spark: SparkSession, frames: dict[str, DataFrame]) -> DataFrame:
    if step.sql:
        return spark.sql(step.sql)
    given = [frames[read.lower()] for read in step.reads]
    found: DataFrame = function_of(job.file, step.function, spark)(*given)
    return found


def marked(
    frame: DataFrame, name: str, watermark: Watermark | None, keys: tuple[str, ...]
) -> DataFrame:
    """The frame with its watermark, and one row for each value of `keys` within it. Raises
    `PipelineError`."""
    if watermark is not None:
        frame, column = with_column(frame, name, watermark.column)
        frame = frame.withWatermark(column, watermark.delay)
    if keys:
        columns = []
        for key in keys:
            frame, column = with_column(frame, name, key)
            columns.append(column)
        frame = frame.dropDuplicatesWithinWatermark(columns)
    return frame


def with_column(frame: DataFrame, name: str, column: str) -> tuple[DataFrame, str]:
    """The frame with the column at its top, and the column's name there: a field of the values is put
    beside `data`."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if column in frame.columns:
        return frame, column
    data = frame.schema[DATA].dataType if DATA in frame.columns else None
    field = column.removeprefix(f"{DATA}.")
    if isinstance(data, StructType) and field in data.fieldNames():
        return frame.withColumn(field, f.col(f"{DATA}.`{field}`")), field
    raise PipelineError(f"{name} has no column {column}: {', '.join(frame.columns)}")


def function_of(file: str, function: str, spark: SparkSession) -> Callable[..., Any]:
    """A function of a job's file. Its module is looked for beside the file first, and sent to executors."""
    name, _, attribute = function.partition(":")
    folder = str(Path(file).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = Path(folder, *name.split(".")).with_suffix(".py")
    if module.is_file() and "." not in name:
        if is_connect(spark):
            spark.addArtifacts(str(module), pyfile=True)
        else:
            spark.sparkContext.addPyFile(str(module))
    found: Callable[..., Any] = getattr(import_module(name), attribute)
    return found
