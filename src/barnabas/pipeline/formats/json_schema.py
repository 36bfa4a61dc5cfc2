"""JSON Schema as columns, where a registry has it: for values of ``value.format`` json.

Owns the mapping: integer is bigint, number double, an object with properties a struct, an
array an array; a string of format date is a date at the top level, where it can be decoded. ``null`` beside a
type, and ``oneOf`` or ``anyOf`` with null, make it nullable, as every column is. ``$ref`` within the schema
is followed. What it says otherwise (patterns, bounds, required) is not checked.

Source: JSON Schema draft 7; Confluent's JSON Schema serializer.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from barnabas.pipeline.errors import OptionError

TYPES = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
DEPTH_MAX = 30
DRAFT = "http://json-schema.org/draft-07/schema#"


def ddl_of(text: str) -> str:
    """Columns of the object that the schema describes, as DDL. Raises `OptionError`."""
    try:
        top = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"the JSON schema is no JSON: {error}") from error
    found = _type(top, top, 0)
    if not found.startswith("struct<"):
        raise OptionError("the JSON schema describes no object with properties")
    return found.removeprefix("struct<").removesuffix(">")


def _type(schema: Any, top: Any, depth: int) -> str:
    if not isinstance(schema, dict) or depth > DEPTH_MAX:
        raise OptionError("the JSON schema has a part without a type, or contains itself")
    if "$ref" in schema:
        return _type(_referred(str(schema["$ref"]), top), top, depth + 1)
    for key in ("oneOf", "anyOf"):
        others = [branch for branch in schema.get(key, ()) if branch.get("type") != "null"]
        if len(others) == 1:
            return _type(others[0], top, depth + 1)
        if others:
            raise OptionError(f"the JSON schema has {key} of several types: no column type")
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        kind = others[0] if len(others) == 1 else kind
    if kind == "string" and schema.get("format") == "date" and depth == 1:
        return "date"
    if kind == "string" or "enum" in schema:
        return TYPES["string"]
    if isinstance(kind, str) and kind in TYPES:
        return TYPES[kind]
    if kind == "array":
        return f"array<{_type(schema.get('items'), top, depth + 2)}>"
    if kind == "object" and schema.get("properties"):
        fields = schema["properties"].items()
        inner = ", ".join(f"`{name}`: {_type(field, top, depth + 1)}" for name, field in fields)
        return f"struct<{inner}>"
    raise OptionError(f"the JSON schema has {json.dumps(schema)[:100]}: no column type")


def _referred(name: str, top: Any) -> Any:
    found = top
    for part in name.removeprefix("#").strip("/").split("/") if name.startswith("#") else [""]:
        found = found.get(part.replace("~1", "/")) if isinstance(found, dict) else None
    if found is None:
        raise OptionError(f"the JSON schema refers to {name}: only its own parts are followed")
    return found


def derived_json_schema(type_: pa.DataType) -> str:
    """The JSON schema of a struct of columns, each of which may be absent."""
    return json.dumps({"$schema": DRAFT, **_schema_of(type_)})


def _schema_of(type_: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(type_):
        return {
            "type": "object",
            "properties": {field.name: _schema_of(field.type) for field in type_},
        }
    if pa.types.is_list(type_):
        return {"type": "array", "items": _schema_of(type_.value_type)}
    if pa.types.is_map(type_):
        return {"type": "object", "additionalProperties": _schema_of(type_.item_type)}
    if pa.types.is_boolean(type_):
        return {"type": "boolean"}
    if pa.types.is_integer(type_):
        return {"type": "integer"}
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return {"type": "number"}
    if pa.types.is_date(type_):
        return {"type": "string", "format": "date"}
    if pa.types.is_timestamp(type_):
        return {"type": "string", "format": "date-time"}
    return {"type": "string"}
