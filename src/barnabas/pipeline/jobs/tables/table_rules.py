"""The rules for every table of a job: how rows become an upsert, which columns a batch may have.

Owns the choice of one row per key within a batch (the last by `order_by`), the check of columns and
partitions against those of the table, and how a staged batch is read again. A table's own commit is
:mod:`delta_table`'s and :mod:`iceberg_table`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import LedgerError, PipelineError, TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ADD_COLUMNS = "add-columns"
EVOLUTIONS = ("none", ADD_COLUMNS)


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules of one table. `upsert_by` are key columns; without them rows are appended.
    `adds_columns`: a batch may bring columns that the table lacks, and lack those that it has."""

    partition_by: tuple[str, ...] = ()
    upsert_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    adds_columns: bool = False

    def check_columns(
        self,
        table: str,
        there: dict[str, str],
        given: dict[str, str],
        computed: frozenset[str] = frozenset(),
    ) -> list[str]:
        """Names that the table lacks. `there` and `given` are types by name; a batch may lack those that are
        `computed`. Raises `LedgerError`."""
        for name in given.keys() & there.keys():
            if given[name] != there[name]:
                raise LedgerError(
                    f"column {name} of table {table} is {there[name]}, the batch has {given[name]}"
                )
        if not self.adds_columns and given.keys() | computed != there.keys() | computed:
            raise LedgerError(
                f"table {table} has columns {', '.join(there)}, the batch has {', '.join(given)};"
                ' schema.evolution = "add-columns" lets a table grow'
            )
        fresh = [column for column in given if column not in there]
        taken = {name.lower(): name for name in there}
        for name in fresh:
            if name.lower() in taken:
                raise LedgerError(
                    f"table {table} has the column {taken[name.lower()]}, the batch has {name}: Spark does"
                    " not read a table with both, as its names have no case"
                )
        return fresh

    def rows_of(self, frame: DataFrame) -> DataFrame:
        """The last rows of each key where the table is upserted and an order is given. Rows that are
        last together and differ all stay, and `check_keys` refuses them: no column says which is meant."""
        if not self.upsert_by or not self.order_by:
            return frame
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        last_first = [f.col(f"`{column}`").desc() for column in self.order_by]
        keys = [f"`{column}`" for column in self.upsert_by]
        numbered = frame.withColumn(
            _NUMBER, f.rank().over(Window.partitionBy(*keys).orderBy(*last_first))
        )
        last = numbered.where(f"{_NUMBER} = 1").drop(_NUMBER)
        return last if has_maps(frame.schema) else last.distinct()

    def check_keys(self, rows: Any, table: str) -> None:
        """Check an upsert's rows, an Arrow table: each key once, none null. Raises `PipelineError`."""
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
                f"a batch for table {table} has {first['count_all']} rows of {shown}: {self._last_one()}"
            )

    def _last_one(self) -> str:
        if not self.order_by:
            return "order_by says which of them is the last"
        names = ", ".join(self.order_by)
        return f"they have the same {names}, so order_by needs one more column, as offset"


def has_maps(schema: StructType) -> bool:
    """Whether a column has maps or variants, at any depth: Spark does not compare such rows."""
    return re.search(r"map<|[:<]variant\b", schema.simpleString()) is not None


NO_RULES = TableRules()
_NUMBER = "__barnabas_row_number"


def agreed_parts(table: str, said: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """The partitioning of a table that is there, which counts. Raises `TableRefusedError` where a job has
    `said` another one."""
    if said and set(said) != set(parts):
        has = f"is partitioned by {', '.join(parts)}" if parts else "has no partitions"
        raise TableRefusedError(
            f"table {table} {has}, the job says partition_by {', '.join(said)}: the table's counts, and"
            " partition_by is for a table that is made"
        )
    return parts


def check_types(schema: StructType, table: str) -> None:
    """Raises `TableRefusedError` for columns whose values would not survive in a table."""
    for field in schema.fields:
        if "variant" in _primitives(field.dataType.jsonValue()):
            raise TableRefusedError(
                f"column {field.name} is VARIANT, which no job writes into table {table}: give it as text,"
                f" to_json({field.name})"
            )


def _primitives(type_: Any) -> set[str]:
    """Names of types in the JSON of a type, at any depth."""
    match type_:
        case {"type": "struct", "fields": fields}:
            return {name for field in fields for name in _primitives(field["type"])}
        case {"type": "array", "elementType": element}:
            return _primitives(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return _primitives(key) | _primitives(value)
        case _:
            return {str(type_)}


def arrow_schema(schema: StructType) -> Any:
    """Every column nullable: a later batch may have nulls where this one has a constant."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    def nullable(field: Any) -> Any:
        type_ = field.type
        if pa.types.is_struct(type_):
            type_ = pa.struct([nullable(field) for field in type_])
        elif pa.types.is_list(type_):
            type_ = pa.list_(nullable(type_.value_field))
        elif pa.types.is_map(type_):
            type_ = pa.map_(type_.key_type, nullable(type_.item_field))
        return pa.field(field.name, type_)

    found = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([nullable(field) for field in found])


def streamed_rows(staged: Path, schema: Any) -> Any:
    """A reader of the rows of a staged batch, with the types of an Arrow schema."""
    import pyarrow.dataset as ds

    if not data_files(staged):
        return schema.empty_table().to_reader()
    parts = ds.partitioning(schema, flavor="hive")
    return ds.dataset(staged, schema, format="parquet", partitioning=parts).scanner().to_reader()


def with_nulls(reader: Any, missing: Mapping[str, Any]) -> Any:
    """A reader's rows with columns of nulls behind them; `missing` are their types by name."""
    import pyarrow as pa

    fields = [pa.field(name, type_) for name, type_ in missing.items()]
    schema = pa.schema([*reader.schema, *fields])

    def batches() -> Iterator[Any]:
        for row in reader:
            empty = [pa.nulls(row.num_rows, field.type) for field in fields]
            yield pa.RecordBatch.from_arrays([*row.columns, *empty], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
