"""The duties of an Iceberg table's writers, read from its format version, schema, partitions and mapping.

Files of tasks have no field ids, no column that is required, and one value of each partition column. A table
that asks for more is written row by row by pyiceberg's own writer: columns that are required, partitions by a
transform or by a type whose values statistics do not give, a name mapping that does not have the columns. A
table that asks for what neither does is refused by name.

A table's sort order is not kept: files are named as unsorted, as the format allows. Source: Iceberg's table
spec, "Sort Orders", "Column Projection", "Default values", "Row Lineage"; pyiceberg's ``add_files``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from barnabas.pipeline.errors import TableRefusedError

FORMAT_VERSION_MAX = 2
FILE_PARTS = frozenset({"boolean", "int", "long", "string", "date"})
"""Types whose values every Parquet file has in its statistics, so that a file shows its partition."""
NO_PARTS = frozenset({"float", "double"})
"""Types by which no table is partitioned: pyiceberg's writer does not find rows with NaN again."""
IN_RUST = ("bucket", "truncate")
"""Transforms that pyiceberg leaves to ``pyiceberg_core``."""


@dataclass(frozen=True, slots=True)
class IcebergDuties:
    """The duties of one table. `by_rows`: pyiceberg writes the rows, as files of tasks would break the
    table's rules. `partition_by` are columns by whose values it is partitioned, where files of tasks
    do."""

    partition_by: tuple[str, ...]
    by_rows: bool


def duties_of(table: Any, name: str) -> IcebergDuties:
    """The duties of a loaded table. Raises `TableRefusedError`, which names what is not done."""
    schema, spec = table.schema(), table.spec()
    if table.format_version > FORMAT_VERSION_MAX:
        asked = ", ".join(("row lineage", *_defaults(schema)))
        raise TableRefusedError(
            f"Iceberg table {name} has format version {table.format_version}, which asks its writers for"
            f" {asked}: a job writes versions up to {FORMAT_VERSION_MAX}"
        )
    for path, _ in _required(schema.fields):
        if "." in path:
            raise TableRefusedError(
                f"Iceberg table {name} requires {path}, a field within a column: a job keeps columns that are"
                " required at the top level only"
            )
    columns = tuple(schema.find_column_name(field.source_id) for field in spec.fields)
    transforms = {str(field.transform).split("[")[0] for field in spec.fields}
    if transforms.intersection(IN_RUST) and find_spec("pyiceberg_core") is None:
        raise TableRefusedError(
            f"Iceberg table {name} is partitioned by {', '.join(sorted(transforms))}: this needs pip install"
            " 'pyiceberg[pyiceberg-core]'"
        )
    types = {str(schema.find_type(field.source_id)) for field in spec.fields}
    if types & NO_PARTS:
        raise TableRefusedError(
            f"Iceberg table {name} is partitioned by a column that is {', '.join(sorted(types & NO_PARTS))}:"
            " values that are no number have no partition"
        )
    by_rows = (
        any(True for _ in _required(schema.fields))
        or not transforms <= {"identity"}
        or not types <= FILE_PARTS
        or any("." in column for column in columns)
        or not _is_mapped(table)
    )
    return IcebergDuties(() if by_rows else columns, by_rows)


def parts_of(table: Any) -> tuple[str, ...]:
    """Columns by which a table is partitioned, by their values or by a transform of them."""
    schema = table.schema()
    return tuple(
        schema.find_column_name(field.source_id)
        for field in table.spec().fields
        if str(field.transform) != "void"
    )


def fitted(reader: Any, schema: Any, name: str) -> Any:
    """A reader's rows as columns of an Iceberg schema. Raises `TableRefusedError` where a required one is
    missing or null; then also while it is read."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    given = set(reader.schema.names)
    target = schema_to_pyarrow(schema, include_field_ids=False)
    needed = [field.name for field in target if not field.nullable]
    for column in needed:
        if column not in given:
            raise TableRefusedError(
                f"Iceberg table {name} requires {column}, which the batch lacks"
            )
    target = pa.schema([field for field in target if field.name in given])

    def batches() -> Iterator[Any]:
        for batch in reader:
            for column in needed:
                if batch.column(column).null_count:
                    raise TableRefusedError(
                        f"Iceberg table {name} requires {column}, and a row of the batch has none"
                    )
            columns = [batch.column(field.name).cast(field.type) for field in target]
            yield pa.RecordBatch.from_arrays(columns, schema=target)

    return pa.RecordBatchReader.from_batches(target, batches())


def _required(fields: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Fields that are required, by path; keys of maps are always."""
    for field in fields:
        path = f"{above}{field.name}"
        if field.required:
            yield path, field
        yield from _required_below(field.field_type, path)


def _required_below(type_: Any, path: str) -> Iterator[tuple[str, Any]]:
    from pyiceberg.types import ListType, MapType, StructType

    match type_:
        case StructType():
            yield from _required(type_.fields, f"{path}.")
        case ListType():
            if type_.element_required:
                yield f"{path}.element", type_
            yield from _required_below(type_.element_type, f"{path}.element")
        case MapType():
            if type_.value_required:
                yield f"{path}.value", type_
            yield from _required_below(type_.value_type, f"{path}.value")


def _defaults(schema: Any) -> list[str]:
    """Default values, by column."""
    return [
        f"the default value of {field.name}"
        for field in schema.fields
        if getattr(field, "initial_default", None) is not None
        or getattr(field, "write_default", None) is not None
    ]


def _is_mapped(table: Any) -> bool:
    """Whether readers find every column of a file without field ids. A table without a mapping gets one with
    its first such file."""
    mapping = table.name_mapping() if "schema.name-mapping.default" in table.properties else None
    if mapping is None:
        return True
    schema = table.schema()
    found = dict(_mapped_names(mapping))
    return all(
        found.get(column) == schema.find_field(column).field_id for column in schema.column_names
    )


def _mapped_names(fields: Any, above: str = "") -> Iterator[tuple[str, int]]:
    """Field ids of a name mapping, by path."""
    for field in fields:
        for name in field.names:
            yield f"{above}{name}", field.field_id
            yield from _mapped_names(field.fields, f"{above}{name}.")
