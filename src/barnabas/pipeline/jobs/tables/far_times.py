"""Timestamps as INT96 that nanoseconds do not reach: pyarrow and deltalake read them as others.

INT96 is Spark's default for timestamps in Parquet, and what Hive wrote; it has a day and nanoseconds of it.
Readers that make 64 bits of nanoseconds of it wrap around: 9999-12-31 becomes 1816-03-29. This module finds
them. It reads the columns that are INT96; other files cost their footer. Source: parquet-format, INT96.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

FIRST, END = datetime(1678, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
"""Whole years that 64 bits of nanoseconds reach."""
FAR = f"INT96 times before {FIRST.year} or after {END.year - 1}"
ADVICE = (
    "rows may be appended; Spark writes the files again with"
    " spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"
)


def far_column(opened: Any) -> str | None:
    """The path of a column of an open Parquet file that has such times."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
    for number in range(len(file.schema)):
        leaf = file.schema.column(number)
        if leaf.physical_type != "INT96":
            continue
        for batch in file.iter_batches(columns=[leaf.path]):
            if any(_has_far(column) for column in batch.columns):
                return str(leaf.path)
    return None


def _has_far(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type):
        return any(_has_far(below) for below in _below(column) if _has_times(below.type))
    ends = pc.min_max(column.cast(pa.int64()))
    if not ends["min"].is_valid:
        return False
    first, end = (int(instant.timestamp()) * 1_000_000 for instant in (FIRST, END))
    return bool(ends["min"].as_py() < first or ends["max"].as_py() >= end)


def _has_times(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(type_) or pa.types.is_timestamp(type_))


def _below(column: Any) -> list[Any]:
    """The arrays within a nested one that was read for one leaf."""
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        return list(column.flatten())
    if pa.types.is_map(column.type):
        return [column.keys, column.items]
    return [column.flatten()]
