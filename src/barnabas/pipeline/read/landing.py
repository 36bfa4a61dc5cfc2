"""A reading task that writes its ranges to Parquet files itself: no row of them passes through the JVM.

The task gives Spark a row for each file, which names it: one file, or one for each value of the columns by
which the table is partitioned. A file is on disk before it is named, has a name of its own, and lies where no
reader of the table looks: those of attempts that Spark does not count are never named to the driver, and the
next run clears them. :mod:`barnabas.pipeline.jobs.landing` makes a batch of the table of the files that were
named.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.offsets import Range
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.places.place_names import is_in_store
from barnabas.pipeline.places.stored_files import DATA, table_store
from barnabas.pipeline.read.columns import ERROR
from barnabas.pipeline.read.landing_plan import LANDED, LandingPlan
from barnabas.pipeline.read.source import RangePartition, StreamReader, read_range

FILES = "file string, rows bigint, bytes bigint"
FILES_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)
ROW_GROUP = 1 << 17
ROW_GROUP_BYTES = 64 << 20


def file_row(file: str, rows: int, size: int) -> pa.RecordBatch:
    from barnabas.record.columnar import numbers, repeated_text  # compiled code: only in tasks

    counts = [numbers(np.array([number]), pa.int64()) for number in (rows, size)]
    return pa.RecordBatch.from_arrays([repeated_text(file, 1), *counts], schema=FILES_SCHEMA)


class LandingReader(StreamReader):
    """A stream whose tasks write files, and whose rows name them."""

    def __init__(self, options: SourceOptions, plan: LandingPlan) -> None:
        # Files are written by tasks.
        options = replace(options, offsets_in_driver_max=0)
        super().__init__(options, StructType.fromJson(json.loads(plan.schema)))
        self._plan = plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        for folder, ranges in by_folder(getattr(partition, "ranges", ()), plan).items():
            rows = read_range(self.options, self.schema, RangePartition(*ranges))
            if plan.good_only:
                rows = (batch.filter(pc.is_null(batch.column(ERROR))) for batch in rows)
            if plan.partition_by and not plan.keeps_parts:
                rows = (batch.drop_columns(list(plan.partition_by)) for batch in rows)
            yield write_file(rows, folder, ranges[0])


def by_folder(ranges: tuple[Range, ...], plan: LandingPlan) -> dict[str, list[Range]]:
    """Ranges by the folder of their files: ``name=value`` for each column of a partitioned table, as Spark
    and Hive have it."""
    found: dict[str, list[Range]] = {}
    for range_ in ranges:
        values = {"topic": range_.topic, "partition": str(range_.partition)}
        parts = [f"{name}={quote(values[name], safe='')}" for name in plan.partition_by]
        below = DATA if is_in_store(plan.table) else LANDED
        found.setdefault(os.path.join(plan.table, below, *parts), []).append(range_)
    return found


def write_file(batches: Iterator[pa.RecordBatch], folder: str, what: Range) -> pa.RecordBatch:
    """All rows in one file, on disk; the row that names it. Raises `StagingError`."""
    file = os.path.join(
        folder, f"{what.topic}-{what.partition}-{what.start}-{uuid.uuid4().hex}.parquet"
    )
    first = next(batches, None)
    if first is None:
        return file_row("", 0, 0)
    try:
        if is_in_store(folder):
            with table_store(folder).open_output(os.path.basename(file)) as out:
                rows = _write_groups(out, first, batches)
                size = out.tell()
        else:
            os.makedirs(folder, exist_ok=True)
            with open(file, "xb") as out:
                rows = _write_groups(out, first, batches)
                out.flush()
                os.fsync(out.fileno())
                size = out.tell()
    except OSError as error:
        raise StagingError(
            f"cannot write {file}: {error}. Driver and executors share the table's path"
        ) from error
    return file_row(file, rows, size)


def _write_groups(out: Any, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
    """Write all rows into an open file; returns how many they are."""
    rows = 0
    with pq.ParquetWriter(out, first.schema, compression="snappy") as writer:
        for group in _groups(first, rest):
            writer.write_table(group, row_group_size=ROW_GROUP)
            rows += group.num_rows
    return rows


def _groups(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches joined to row groups, bounded in rows and bytes."""
    kept, rows, size = [first], first.num_rows, first.nbytes
    for row in rest:
        if rows + row.num_rows > ROW_GROUP or size + row.nbytes > ROW_GROUP_BYTES:
            yield pa.Table.from_batches(kept)
            kept, rows, size = [], 0, 0
        kept.append(row)
        rows += row.num_rows
        size += row.nbytes
    yield pa.Table.from_batches(kept)
