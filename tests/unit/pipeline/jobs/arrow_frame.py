"""A frame of Arrow rows that is written as Spark's tasks write: files in a folder, with Hadoop's marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema


class ArrowFrame:
    """What tables ask of a DataFrame."""

    def __init__(self, rows: pa.Table, partition_by: tuple[str, ...] = ()) -> None:
        self.rows = rows
        self._partition_by = partition_by

    @property
    def columns(self) -> list[str]:
        return list(self.rows.column_names)

    @property
    def schema(self) -> Any:
        return from_arrow_schema(self.rows.schema)

    @property
    def write(self) -> Any:
        return self

    def __getitem__(self, name: str) -> Any:
        return self.rows[name.strip("`")]

    def withColumn(self, name: str, column: Any) -> Any:
        return ArrowFrame(self.rows.append_column(name, column))

    def mode(self, _: str) -> Any:
        return self

    def partitionBy(self, *names: str) -> Any:
        return ArrowFrame(self.rows, names)

    def parquet(self, uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        if self._partition_by:
            pq.write_to_dataset(self.rows, folder, partition_cols=list(self._partition_by))
        else:
            pq.write_table(self.rows, folder / "part-0.snappy.parquet")
        (folder / "_SUCCESS").touch()
        (folder / ".part-0.snappy.parquet.crc").touch()


def frame(**columns: list[Any]) -> Any:
    return ArrowFrame(pa.table(columns))
