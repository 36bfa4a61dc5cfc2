"""What holds for every table of a job: how rows become an upsert, which columns a batch may have.

Owns the choice of one row per key within a batch (the last by `order_by`) and the check of columns against
those of the table. A table's own commit is :mod:`delta_table`'s and :mod:`iceberg_table`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import LedgerError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ADD_COLUMNS = "add-columns"
EVOLUTIONS = ("none", ADD_COLUMNS)


@dataclass(frozen=True, slots=True)
class TableRules:
    """Of one table. `upsert_by` are key columns; without them rows are appended. `adds_columns`: a batch may
    bring columns that the table lacks, and lack those that it has."""

    partition_by: tuple[str, ...] = ()
    upsert_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    adds_columns: bool = False

    def check_columns(self, table: str, there: dict[str, str], given: dict[str, str]) -> list[str]:
        """Names that the table lacks. `there` and `given` are types by name. Raises `LedgerError`."""
        for name in given.keys() & there.keys():
            if given[name] != there[name]:
                raise LedgerError(
                    f"column {name} of table {table} is {there[name]}, the batch has {given[name]}"
                )
        if not self.adds_columns and given.keys() != there.keys():
            raise LedgerError(
                f"table {table} has columns {', '.join(there)}, the batch has {', '.join(given)};"
                ' schema.evolution = "add-columns" lets a table grow'
            )
        return [each for each in given if each not in there]

    def rows_of(self, frame: DataFrame) -> DataFrame:
        """One row per key where the table is upserted and an order is given."""
        if not self.upsert_by or not self.order_by:
            return frame
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        last_first = [f.col(f"`{each}`").desc() for each in self.order_by]
        keys = [f"`{each}`" for each in self.upsert_by]
        numbered = frame.withColumn(
            _NUMBER, f.row_number().over(Window.partitionBy(*keys).orderBy(*last_first))
        )
        return numbered.where(f"{_NUMBER} = 1").drop(_NUMBER)

    def check_keys(self, rows: Any, table: str) -> None:
        """Of an upsert's rows, an Arrow table: each key once, none null. Raises `PipelineError`."""
        import pyarrow.compute as pc

        keys = rows.select(list(self.upsert_by))
        for name in self.upsert_by:
            if keys[name].null_count:
                raise PipelineError(
                    f"a row for table {table} has no {name}, by which it is upserted"
                )
        counts = keys.group_by(list(self.upsert_by)).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts["count_all"], 1))
        if len(twice):
            first = twice.slice(0, 1).to_pylist()[0]
            shown = ", ".join(f"{name} = {first[name]!r}" for name in self.upsert_by)
            raise PipelineError(
                f"a batch for table {table} has {first['count_all']} rows of {shown}: order_by says which"
                " of them is the last"
            )


NO_RULES = TableRules()
_NUMBER = "__barnabas_row_number"


def arrow_schema(schema: StructType) -> Any:
    """Every column nullable: a later batch may have nulls where this one has a constant."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    def nullable(field: Any) -> Any:
        type_ = field.type
        if pa.types.is_struct(type_):
            type_ = pa.struct([nullable(each) for each in type_])
        elif pa.types.is_list(type_):
            type_ = pa.list_(nullable(type_.value_field))
        elif pa.types.is_map(type_):
            type_ = pa.map_(type_.key_type, nullable(type_.item_field))
        return pa.field(field.name, type_)

    found = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([nullable(each) for each in found])


def staged_rows(staged: Path) -> Any:
    """The rows of a staged batch as an Arrow table."""
    import pyarrow.dataset as ds

    return ds.dataset(staged, format="parquet").to_table()
