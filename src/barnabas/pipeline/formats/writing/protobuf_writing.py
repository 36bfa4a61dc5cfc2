"""Values written as Protobuf messages, by descriptor. A null column is a field that is not set.

Enums go by name (or number as text), wrappers by their value, ``google.protobuf.Struct`` and its like by JSON
text: the inverse of :mod:`protobuf_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from barnabas.pipeline.formats.decoding import sentence_of
from barnabas.pipeline.formats.protobuf_schema import (
    AS_JSON,
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    class_of,
    column_of,
    is_map,
    message_of,
    pool_of,
)
from barnabas.pipeline.formats.protobuf_values import MICROS, UNSIGNED
from barnabas.pipeline.formats.schema_registry import RegisteredSchema
from barnabas.pipeline.formats.writing.encoding import BadRowError, rows_of

BAD = (ValueError, TypeError, OverflowError, LookupError, json_format.ParseError)


class ProtobufEncoder:
    """Encodes the values of one task. Raises `BadRowError` with the row and the column."""

    def __init__(self, schema: RegisteredSchema, message: str, prefix: bytes) -> None:
        self._descriptor = message_of(*pool_of(schema), message)
        self._natural = column_of(self._descriptor).arrow
        self._class = class_of(self._descriptor)
        self._prefix = prefix

    def __call__(self, values: pa.StructArray) -> pa.Array:
        found: list[bytes | None] = []
        for row, fields in enumerate(rows_of(values, self._natural)):
            if fields is None:
                found.append(None)
                continue
            message = self._class()
            for name, value in fields.items():
                try:
                    _set(message, self._descriptor.fields_by_name[name], value)
                except BAD as error:
                    raise BadRowError(row, f"value.{name}", sentence_of(error)) from error
            found.append(self._prefix + message.SerializeToString(deterministic=True))
        return pa.array(found, pa.binary())


def _fill(message: Any, row: Mapping[str, Any], descriptor: Descriptor) -> None:
    for name, value in row.items():
        _set(message, descriptor.fields_by_name[name], value)


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if value is None:
        return
    target = field.name
    if is_map(field):
        within = field.message_type.fields_by_name["value"]
        entries = getattr(message, target)
        for key, item in value:
            if item is None:
                raise ValueError(f"the map has a null under {key!r}")
            if within.message_type is None:
                entries[key] = _scalar(item, within)
            else:
                _set_message(entries[key], item, within)
        return
    if field.is_repeated:
        repeated = getattr(message, target)
        for item in value:
            if item is None:
                raise ValueError("the list has a null")
            if field.message_type is None:
                repeated.append(_scalar(item, field))
            else:
                _set_message(repeated.add(), item, field)
        return
    if field.message_type is None:
        setattr(message, target, _scalar(value, field))
        return
    getattr(message, target).SetInParent()
    _set_message(getattr(message, target), value, field)


def _set_message(message: Any, value: Any, field: FieldDescriptor) -> None:
    name = field.message_type.full_name
    if name in (TIMESTAMP, DURATION):
        message.seconds, micros = divmod(value, MICROS)
        if name == DURATION and message.seconds < 0 < micros:
            # Seconds and nanos of a Duration have the same sign.
            message.seconds, micros = message.seconds + 1, micros - MICROS
        message.nanos = micros * 1000
    elif name in AS_JSON:
        json_format.Parse(value, message)
    elif name in WRAPPERS:
        message.value = _scalar(value, field.message_type.fields_by_name["value"])
    else:
        _fill(message, value, field.message_type)


def _scalar(value: Any, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_name.get(value)
        if known is not None:
            return known.number
        if not value.lstrip("-").isdigit():
            raise ValueError(f"enum {field.enum_type.name} has no {value!r}")
        return int(value)
    return int(value) if field.type in UNSIGNED else value


def path_of(descriptor: Descriptor) -> tuple[int, ...]:
    """The index of each message type, from the file's down to `descriptor`: Confluent's message indexes."""
    path = []
    while descriptor.containing_type is not None:
        path.append(list(descriptor.containing_type.nested_types).index(descriptor))
        descriptor = descriptor.containing_type
    path.append(list(descriptor.file.message_types_by_name.values()).index(descriptor))
    return tuple(reversed(path))
