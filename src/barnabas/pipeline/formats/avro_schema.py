"""Avro schemas as columns: Spark's types for a query, Arrow's for what is decoded.

Owns the mapping, which is that of Spark's ``from_avro``: a union with null is nullable, enums and uuids are
strings, ``timestamp-millis`` and ``-micros`` are timestamps, ``time-*`` are numbers. A union of several
types besides null has no column, int with long and float with double excepted; nor has a record within
itself.

Logical types that are numbers are read as numbers: fastavro would make an object of each, Arrow takes the
number.

Source: Avro 1.12 specification; Spark's ``SchemaConverters``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.schema_registry import RegisteredSchema

PRIMITIVE = {
    "boolean": ("boolean", pa.bool_()),
    "int": ("int", pa.int32()),
    "long": ("bigint", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "bytes": ("binary", pa.binary()),
    "string": ("string", pa.string()),
}
LOGICAL = {
    ("int", "date"): ("date", pa.date32()),
    ("long", "timestamp-millis"): ("timestamp", pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros"): ("timestamp", pa.timestamp("us", "UTC")),
    ("long", "local-timestamp-millis"): ("timestamp_ntz", pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): ("timestamp_ntz", pa.timestamp("us")),
}
KEPT = frozenset({"decimal"})
"""Logical types that fastavro decodes."""
PRECISION_MAX = 38


@dataclass(frozen=True, slots=True)
class Column:
    """A type as Spark's DDL and as Arrow's."""

    ddl: str
    arrow: pa.DataType


def parsed(schema: RegisteredSchema) -> Any:
    """The schema for fastavro; logical types that are numbers are left out. Raises `PipelineError`."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    named: dict[str, Any] = {}
    try:
        for _, reference in _in_order(schema.references):
            fastavro.parse_schema(_without_numbers(json.loads(reference.text)), named)
        return fastavro.parse_schema(_without_numbers(json.loads(schema.text)), named)
    except (
        SchemaParseException, UnknownType, ValueError, KeyError, TypeError, RecursionError,
    ) as error:  # fmt: skip
        raise PipelineError(f"this is no Avro schema: {type(error).__name__}: {error}") from error


def _in_order(
    references: Iterable[tuple[str, RegisteredSchema]],
) -> list[tuple[str, RegisteredSchema]]:
    """Each once, behind what it refers to."""
    found: dict[str, RegisteredSchema] = {}
    for name, reference in references:
        found.update(_in_order(reference.references))
        found.setdefault(name, reference)
    return list(found.items())


def _without_numbers(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_numbers(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: value for name, value in schema.items() if name != "default"}
    found = {name: _without_numbers(value) for name, value in found.items()}
    if "default" in schema:
        found["default"] = schema["default"]
    if isinstance(found.get("logicalType"), str) and found["logicalType"] not in KEPT:
        del found["logicalType"]
    return found


def columns_of(schema: RegisteredSchema) -> Column:
    """The columns of a record, the type of `data`. Raises `OptionError`."""
    known: dict[str, Any] = {}
    try:
        for _, reference in _in_order(schema.references):
            _collect(json.loads(reference.text), "", known)
        top = json.loads(schema.text)
        _collect(top, "", known)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"value.schema is no JSON: {error}") from error
    if not isinstance(top, dict) or top.get("type") != "record":
        raise OptionError("value.schema is an Avro record: {'type': 'record', ...}")
    return _column(top, "", known, ())


def _full_name(schema: dict[str, Any], space: str) -> str:
    name = str(schema.get("name", ""))
    space = str(schema.get("namespace", space))
    return name if "." in name or not space else f"{space}.{name}"


def _collect(schema: Any, space: str, known: dict[str, Any]) -> None:
    """Named types by full name, with the namespace that holds inside them."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, space, known)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "error", "enum", "fixed"):
            name = _full_name(schema, space)
            space = name.rpartition(".")[0]
            known[name] = schema
        for field in schema.get("fields", ()):
            _collect(field.get("type"), space, known)
        for key in ("items", "values"):
            _collect(schema.get(key), space, known)
        if isinstance(schema.get("type"), dict | list):
            _collect(schema["type"], space, known)


def _column(schema: Any, space: str, known: dict[str, Any], above: tuple[str, ...]) -> Column:
    if isinstance(schema, list):
        return _union(schema, space, known, above)
    if isinstance(schema, str):
        if schema in PRIMITIVE:
            return Column(*PRIMITIVE[schema])
        name = schema if "." in schema or not space else f"{space}.{schema}"
        name = name if name in known else schema
        if name not in known:
            raise OptionError(f"an Avro type {schema!r} has no column type")
        return _column(known[name], name.rpartition(".")[0], known, above)
    if not isinstance(schema, dict):
        raise OptionError(f"{schema!r} is no Avro type")
    match schema.get("type"):
        case "record" | "error":
            return _record(schema, space, known, above)
        case "enum":
            return Column(*PRIMITIVE["string"])
        case "array":
            inner = _column(schema["items"], space, known, above)
            return Column(f"array<{inner.ddl}>", pa.list_(inner.arrow))
        case "map":
            inner = _column(schema["values"], space, known, above)
            return Column(f"map<string, {inner.ddl}>", pa.map_(pa.string(), inner.arrow))
        case "fixed" | "bytes" if schema.get("logicalType") == "decimal":
            return _decimal(schema)
        case "fixed":
            return Column(*PRIMITIVE["bytes"])
        case str() as name if (name, schema.get("logicalType")) in LOGICAL:
            return Column(*LOGICAL[name, schema["logicalType"]])
        case inner_type:
            return _column(inner_type, space, known, above)


def _record(
    schema: dict[str, Any], space: str, known: dict[str, Any], above: tuple[str, ...]
) -> Column:
    name = _full_name(schema, space)
    if name in above:
        raise OptionError(f"Avro record {name} contains itself: it has no column type")
    space = name.rpartition(".")[0]
    fields = {
        str(field["name"]): _column(field["type"], space, known, (*above, name))
        for field in schema["fields"]
    }
    if not fields:
        raise OptionError(f"Avro record {name} has no fields: it has no column type")
    inner = ", ".join(f"`{field}`: {column.ddl}" for field, column in fields.items())
    return Column(
        f"struct<{inner}>", pa.struct([(field, column.arrow) for field, column in fields.items()])
    )


def _union(schema: list[Any], space: str, known: dict[str, Any], above: tuple[str, ...]) -> Column:
    others = [branch for branch in schema if branch != "null"]
    if len(others) == 1:
        return _column(others[0], space, known, above)
    names = {branch if isinstance(branch, str) else "" for branch in others}
    if names == {"int", "long"}:
        return Column(*PRIMITIVE["long"])
    if names == {"float", "double"}:
        return Column(*PRIMITIVE["double"])
    raise OptionError(f"an Avro union of {json.dumps(schema)} has no column type")


def _decimal(schema: dict[str, Any]) -> Column:
    precision, scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
    if not 0 < precision <= PRECISION_MAX or not 0 <= scale <= precision:
        raise OptionError(f"an Avro decimal of precision {precision} has no column type")
    return Column(f"decimal({precision},{scale})", pa.decimal128(precision, scale))
