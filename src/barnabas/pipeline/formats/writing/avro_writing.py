"""Values written as Avro: by a schema that is given, or one that the query's columns have.

The derived schema is a record ``topLevelRecord``; each column is null or its type, null by default, so that
a column more or less is compatible. A given schema may have fields that the query lacks where they have a
default or may be null; a column that the schema lacks is an error before anything is written.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.validation import ValidationError

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.formats.avro_schema import columns_of, parsed
from barnabas.pipeline.formats.decoding import sentence_of
from barnabas.pipeline.formats.schema_registry import RegisteredSchema
from barnabas.pipeline.formats.writing.encoding import BadRowError, narrowed, rows_of

TOP = "topLevelRecord"
BAD = (ValueError, TypeError, OverflowError, ArithmeticError, LookupError, AttributeError)


class AvroEncoder:
    """The encoder of one task."""

    def __init__(self, schema: RegisteredSchema, prefix: bytes) -> None:
        self._schema = parsed(schema)
        self._natural = columns_of(schema).arrow
        self._prefix = prefix

    def __call__(self, values: pa.StructArray) -> pa.Array:
        given = {field.name for field in values.type}
        for field in self._schema["fields"]:
            if field["name"] not in given and "default" not in field and not _takes_null(field):
                raise OptionError(f"value has no column {field['name']}, which the schema needs")
        type_ = narrowed(self._natural, values.type)
        has_maps = _has_maps(type_)
        found: list[bytes | None] = []
        for row, fields in enumerate(rows_of(values, self._natural)):
            if fields is None:
                found.append(None)
                continue
            datum = _with_maps(fields, type_) if has_maps else fields
            out = BytesIO()
            out.write(self._prefix)
            try:
                fastavro.schemaless_writer(out, self._schema, datum)
            except BAD as error:
                raise BadRowError(row, *self._where(datum, error)) from error
            found.append(out.getvalue())
        return pa.array(found, pa.binary())

    def _where(self, datum: Any, error: BaseException) -> tuple[str, str]:
        """Column and reason."""
        try:
            fastavro.validate(datum, self._schema)
        except ValidationError as invalid:
            found = invalid.errors[0]
            column = str(found.field).removeprefix(f"{self._schema['name']}.")
            return f"value.{column}", f"{found.datum!r} is no {_named(found.schema)}"[:300]
        except BAD:
            pass
        return "value", sentence_of(error)


def _named(schema: Any) -> str:
    return json.dumps(schema) if isinstance(schema, list | dict) else str(schema)


def _takes_null(field: Any) -> bool:
    return field["type"] == "null" or (isinstance(field["type"], list) and "null" in field["type"])


def _has_maps(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return True
    return any(_has_maps(type_.field(at).type) for at in range(type_.num_fields))


def _with_maps(value: Any, type_: pa.DataType) -> Any:
    """Arrow's pairs as dictionaries."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: _with_maps(value[field.name], field.type) for field in type_}
    if pa.types.is_list(type_):
        return [_with_maps(item, type_.value_type) for item in value]
    if pa.types.is_map(type_):
        return {key: _with_maps(item, type_.item_type) for key, item in value}
    return value


def derived_schema(type_: pa.DataType) -> str:
    """The schema of a struct of columns. Raises `OptionError` for a column that Avro has no type for."""
    return json.dumps(_record(type_, TOP, ""))


def _record(type_: pa.DataType, name: str, space: str) -> dict[str, Any]:
    full = f"{space}.{name}" if space else name
    fields = [
        {"name": field.name, "type": ["null", _type(field.type, field.name, full)], "default": None}
        for field in type_
    ]
    named = {"namespace": space} if space else {}
    return {"type": "record", "name": name, **named, "fields": fields}


def _type(type_: pa.DataType, name: str, space: str) -> Any:
    if pa.types.is_struct(type_):
        return _record(type_, name, space)
    if pa.types.is_list(type_):
        return {"type": "array", "items": ["null", _type(type_.value_type, name, space)]}
    if pa.types.is_map(type_):
        if not pa.types.is_string(type_.key_type):
            raise OptionError(f"column {name}: keys of an Avro map are strings")
        return {"type": "map", "values": ["null", _type(type_.item_type, name, space)]}
    if pa.types.is_decimal(type_):
        exact = {"precision": type_.precision, "scale": type_.scale}
        return {"type": "bytes", "logicalType": "decimal", **exact}
    if pa.types.is_timestamp(type_):
        kind = "local-timestamp-micros" if type_.tz is None else "timestamp-micros"
        return {"type": "long", "logicalType": kind}
    if pa.types.is_date(type_):
        return {"type": "int", "logicalType": "date"}
    plain = {
        "bool": "boolean", "int8": "int", "int16": "int", "int32": "int", "int64": "long",
        "float": "float", "double": "double", "string": "string", "binary": "bytes",
    }.get(str(type_))  # fmt: skip
    if plain is None:
        raise OptionError(f"column {name} is {type_}, which Avro has no type for")
    return plain
