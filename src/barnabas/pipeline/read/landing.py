"""A reading task that writes its range to a Parquet file itself: no row of it passes through the JVM.

The task gives Spark one row, which names the file. A file is on disk before it is named, has a name of its
own, and lies where no reader of the table looks: those of attempts that Spark does not count are never named
to the driver, and the next run clears them. :mod:`barnabas.pipeline.jobs.landing` makes a batch of the table
of the files that were named.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.offsets import Range
from barnabas.pipeline.option_names import LAND_GOOD_ONLY, LAND_PATH, LAND_SCHEMA
from barnabas.pipeline.options import Options, SourceOptions, boolean
from barnabas.pipeline.read.source import ERROR, RangePartition, StreamReader, read_range

FILES = "file string, rows bigint, bytes bigint"
FILES_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)
LANDED = "_staged/landed"
"""Below the table: files that no batch has yet."""
ROW_GROUP = 1 << 17
ROW_GROUP_BYTES = 64 << 20


def file_row(file: str, rows: int, size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"file": [file], "rows": [rows], "bytes": [size]}, schema=FILES_SCHEMA
    )


class LandingReader(StreamReader):
    """A stream whose tasks write files, and whose rows name them."""

    def __init__(self, options: SourceOptions, given: Options) -> None:
        super().__init__(options, StructType.fromJson(json.loads(given[LAND_SCHEMA])))
        self._folder = os.path.join(given[LAND_PATH], LANDED)
        self._good_only = boolean(given, LAND_GOOD_ONLY, False)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        what = partition.what if isinstance(partition, RangePartition) else None
        if what is None:
            return
        rows = read_range(self.options, self.schema, partition)
        if self._good_only:
            rows = (each.filter(pc.is_null(each.column(ERROR))) for each in rows)
        yield write_file(rows, self._folder, what)


def write_file(batches: Iterator[pa.RecordBatch], folder: str, what: Range) -> pa.RecordBatch:
    """All rows in one file, on disk; the row that names it. Raises `StagingError`."""
    file = os.path.join(
        folder, f"{what.topic}-{what.partition}-{what.start}-{uuid.uuid4().hex}.parquet"
    )
    first = next(batches, None)
    if first is None:
        return file_row("", 0, 0)
    rows = 0
    try:
        os.makedirs(folder, exist_ok=True)
        with open(file, "xb") as out:
            with pq.ParquetWriter(out, first.schema, compression="snappy") as writer:
                for group in _groups(first, batches):
                    writer.write_table(group, row_group_size=ROW_GROUP)
                    rows += group.num_rows
            out.flush()
            os.fsync(out.fileno())
            size = out.tell()
    except OSError as error:
        raise StagingError(
            f"cannot write {file}: {error}. Driver and executors share the table's path"
        ) from error
    return file_row(file, rows, size)


def _groups(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches joined to row groups, bounded in rows and bytes."""
    kept, rows, size = [first], first.num_rows, first.nbytes
    for each in rest:
        if rows + each.num_rows > ROW_GROUP or size + each.nbytes > ROW_GROUP_BYTES:
            yield pa.Table.from_batches(kept)
            kept, rows, size = [], 0, 0
        kept.append(each)
        rows += each.num_rows
        size += each.nbytes
    yield pa.Table.from_batches(kept)
