"""Topic to table with the reading tasks as writers: each micro-batch once, no row through the JVM.

The rows of the query name files (:mod:`barnabas.pipeline.read.landing`). The driver collects them, a row for
each file, moves the files into the folder of the batch, and has the table commit them as it commits what
Spark has written (:mod:`parquet_table`, :mod:`delta_table`, :mod:`iceberg_table`): under the batch's number,
with the digest of its plan. Spark keeps the schedule and the checkpoint.

>>> land(spark, {"kafka.bootstrap.servers": "...", "subscribe": "flights"},  # doctest: +SKIP
...      table="/data/tables/flights", checkpoint="/data/checkpoints/flights").awaitTermination()
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.pipeline.errors import OptionError, StagingError
from barnabas.pipeline.jobs.job_offsets import digest_of
from barnabas.pipeline.jobs.tables.batch_files import STAGED, Batch, BatchRows
from barnabas.pipeline.jobs.tables.parquet_table import ParquetTable
from barnabas.pipeline.option_names import LAND
from barnabas.pipeline.options import absolute
from barnabas.pipeline.places.bare_paths import place_for_session
from barnabas.pipeline.places.stored_files import StoredFile, check_there
from barnabas.pipeline.read.landing_plan import LANDED, PARTS, LandingPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "barnabas"


class LandingTable(Protocol):
    """The part of a table that tasks which write its files use."""

    @property
    def partition_by(self) -> tuple[str, ...]: ...

    @property
    def keeps_parts(self) -> bool: ...

    @property
    def given(self) -> str:
        """Its place as it was named."""

    def begin(self) -> None: ...

    def land_in(self, schema: StructType) -> str: ...

    def take(self, rows: BatchRows, batch: Batch) -> bool: ...


class LandedRows:
    """The rows of a micro-batch that its reading tasks write. `files` names the files, `schema` is that of
    their rows; `count` is how many there were, once they are staged."""

    def __init__(self, files: DataFrame, schema: StructType) -> None:
        self.schema = schema
        self.count = 0
        self._files = files

    def staged(
        self, table: str, batch: Batch, partition_by: tuple[str, ...] = (), *, keeps: bool = False
    ) -> Path:
        """Stage the rows as :meth:`BatchRows.staged` does. Raises `StagingError`."""
        return gathered([landed.file for landed in self._collected()], table, batch)

    def stored(
        self, table: str, batch: Batch, partition_by: tuple[str, ...] = (), *, keeps: bool = False
    ) -> list[StoredFile]:
        """Store the rows as :meth:`BatchRows.stored` does. Raises `StagingError`."""
        found = [
            StoredFile(landed.file.removeprefix(f"{table}/"), landed.rows, landed.bytes)
            for landed in self._collected()
        ]
        check_there(table, found)
        return found

    def _collected(self) -> list[Any]:
        files = [file for file in self._files.collect() if file.file]
        self.count = sum(file.rows for file in files)
        return files


class Landing:
    """A table and the query whose tasks write its files."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        table: LandingTable,
        *,
        good_only: bool = False,
    ) -> None:
        """`options` are those of ``format("barnabas")``. Raises `OptionError`."""
        for column in table.partition_by:
            if column not in PARTS:
                raise OptionError(
                    f"a table that reading tasks write is partitioned by {' and '.join(PARTS)} only, not"
                    f" by {column}"
                )
        self.table = table
        self.schema: StructType = spark.readStream.format(FORMAT).options(**options).load().schema
        plan = LandingPlan(
            table.land_in(self.schema),
            self.schema.json(),
            good_only,
            table.partition_by,
            table.keeps_parts,
        )
        reader = spark.readStream.format(FORMAT).options(**options)
        self.frame: DataFrame = reader.option(LAND, plan.to_json()).load()
        """A stream of files with what `options` read; a row for each."""

    def take(self, files: DataFrame, batch: Batch) -> int | None:
        """Make a batch of the table of what the tasks of `files`, a micro-batch of `frame`, write; rows, or
        None where it was there. Raises `StagingError`, `LedgerError`."""
        rows = LandedRows(files, self.schema)
        return rows.count if self.table.take(rows, batch) else None


def gathered(files: list[str], table: str, batch: Batch) -> Path:
    """A folder with the files and nothing else. Raises `StagingError`."""
    folder = Path(table, STAGED, f"{batch.number}-{uuid.uuid4().hex}")
    folder.mkdir(parents=True)
    for file in files:
        target = folder / Path(file).relative_to(Path(table, LANDED))
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(file, target)
        except FileNotFoundError as error:
            raise StagingError(
                f"{file} is not there: driver and executors do not share {table}"
            ) from error
    return folder


def check_given(spark: SparkSession, table: LandingTable) -> None:
    """Raises `StagingError` for a table that is a bare path where the session has none."""
    place = place_for_session(spark, table.given, "table")
    if place != table.given:
        raise StagingError(f"table {table.given}: Spark has this path as {place}; name it so")


def land(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    table: str | LandingTable,
    checkpoint: str,
    name: str = "land",
    available_now: bool = False,
    trigger: str | None = None,
) -> Any:
    """Start the query; it is Spark's `StreamingQuery`. `options` are those of ``format("barnabas")``, `table`
    is the folder of a Parquet table, a `DeltaTable` or `IcebergTable`, `name` the job's in the table and the
    same for good, `trigger` as ``10 seconds``. Raises `OptionError`."""
    checkpoint = place_for_session(spark, absolute(checkpoint) or checkpoint, "checkpoint")
    if isinstance(table, str):
        place = place_for_session(spark, absolute(table) or table, "table")
        target: LandingTable = ParquetTable(place)
    else:
        target = table
    check_given(spark, target)
    target.begin()
    landing = Landing(spark, {"checkpointLocation": checkpoint, **options}, target)

    def write(files: DataFrame, number: int) -> None:
        landing.take(files, Batch(name, number, digest_of(checkpoint, number)))

    writer = landing.frame.writeStream.queryName(name).foreachBatch(write)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    return writer.option("checkpointLocation", checkpoint).start()
