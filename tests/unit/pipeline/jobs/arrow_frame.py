"""A frame of Arrow rows that is written as Spark's tasks write: files in a folder, with Hadoop's marks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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

    def selectExpr(self, _: str, *named: str) -> Any:
        """All columns and some as text, as files that keep the columns of their folders are written."""
        rows = self.rows
        for each in named:
            found = re.fullmatch(r"concat\('=', cast\(`(.*)` as string\)\) as (\w+)", each)
            assert found is not None
            text = rows[found[1]].cast(pa.string())
            rows = rows.append_column(found[2], pc.binary_join_element_wise("=", text, ""))
        return ArrowFrame(rows)

    def mode(self, _: str) -> Any:
        return self

    def partitionBy(self, *names: str) -> Any:
        return ArrowFrame(self.rows, names)

    def parquet(self, uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        if self._partition_by:
            rows = self.rows
            for number, each in enumerate(rows.schema):
                if each.name in self._partition_by and pa.types.is_string(each.type):
                    # Spark has one folder for null and for an empty text.
                    text = rows[each.name]
                    some = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
                    rows = rows.set_column(number, each, some)
            pq.write_to_dataset(rows, folder, partition_cols=list(self._partition_by))
        else:
            pq.write_table(self.rows, folder / "part-0.snappy.parquet")
        (folder / "_SUCCESS").touch()
        (folder / ".part-0.snappy.parquet.crc").touch()


def frame(**columns: list[Any]) -> Any:
    return ArrowFrame(pa.table(columns))
