"""Values written as JSON objects or CSV rows, by the columns that a query gives.

JSON is that of Spark's ``to_json``: fields that are null are left out, binary is base64, decimals are numbers
with all their digits, not-a-number and the infinities are strings. Timestamps are ISO 8601 in UTC with
microseconds. A CSV row has no line end and no header; null is nothing, an empty text is ``""``.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.formats.decoding import sentence_of
from barnabas.pipeline.formats.writing.encoding import BadRowError, rows_of

Text = Callable[[Any], str]


class TextEncoder:
    """The encoder of one task. `prefix` goes before each value."""

    def __init__(self, name: str, delimiter: str, prefix: bytes) -> None:
        self._name = name
        self._delimiter = delimiter
        self._prefix = prefix

    def __call__(self, values: pa.StructArray) -> pa.Array:
        given = values.type
        text = json_text(given) if self._name == "json" else csv_text(given, self._delimiter)
        found: list[bytes | None] = []
        for row, fields in enumerate(rows_of(values, given, numbers=False)):
            try:
                found.append(None if fields is None else self._prefix + text(fields).encode())
            except (ValueError, OverflowError) as error:
                raise BadRowError(row, "value", sentence_of(error)) from error
        return pa.array(found, pa.binary())


def json_text(type_: pa.DataType) -> Text:
    """How a value of the type is written as JSON."""
    if pa.types.is_struct(type_):
        fields = [
            (field.name, f"{encode_basestring(field.name)}:", json_text(field.type))
            for field in type_
        ]
        return lambda value: (
            "{"
            + ",".join(
                label + text(value[name]) for name, label, text in fields if value[name] is not None
            )
            + "}"
        )
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        item = json_text(type_.value_type)
        return lambda value: (
            f"[{','.join('null' if element is None else item(element) for element in value)}]"
        )
    if pa.types.is_map(type_):
        plain, item = _plain_text(type_.key_type), json_text(type_.item_type)
        return lambda value: (
            "{"
            + ",".join(
                f"{encode_basestring(plain(key))}:{'null' if part is None else item(part)}"
                for key, part in value
            )
            + "}"
        )
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_null(type_):
        return json.dumps
    if pa.types.is_floating(type_):
        return lambda value: (
            json.dumps(value) if math.isfinite(value) else f'"{_not_finite(value)}"'
        )
    plain = _plain_text(type_)
    if pa.types.is_decimal(type_):
        return plain
    return lambda value: encode_basestring(plain(value))


def csv_text(type_: pa.DataType, delimiter: str) -> Text:
    """Raises `OptionError` for a column that has no place in a CSV row."""
    fields = []
    for field in type_:
        if pa.types.is_nested(field.type):
            raise OptionError(
                f"column value.{field.name} is {field.type}: csv has plain columns only"
            )
        fields.append((field.name, _plain_text(field.type)))
    special = (delimiter, '"', "\n", "\r")

    def cell(text: str) -> str:
        is_quoted = not text or any(character in text for character in special)
        return '"' + text.replace('"', '""') + '"' if is_quoted else text

    def row(value: dict[str, Any]) -> str:
        return delimiter.join(
            "" if value[name] is None else cell(text(value[name])) for name, text in fields
        )

    return row


def _plain_text(type_: pa.DataType) -> Text:
    if pa.types.is_boolean(type_):
        return lambda value: "true" if value else "false"
    if pa.types.is_floating(type_):
        return lambda value: repr(value) if math.isfinite(value) else _not_finite(value)
    if pa.types.is_timestamp(type_):
        return _instant
    if pa.types.is_date(type_):
        return lambda value: str(value.isoformat())
    if pa.types.is_decimal(type_):
        return lambda value: format(value, "f")
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_duration(type_):
        raise OptionError(
            "an interval has no form in json and csv: cast it to a string or a number"
        )
    return str


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _instant(value: datetime.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(
        timespec="microseconds"
    ) + "Z"  # fmt: skip
