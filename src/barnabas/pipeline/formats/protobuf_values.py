"""Protobuf values decoded in the worker: messages by descriptor, then one Arrow array for each field.

A field without presence has its default, one with presence that is absent is null; so are messages. Numbers
of an enum that it does not name are text. By Protobuf's own rules a reader takes what writers of other
versions wrote, so a writer's schema is looked up for the name of its message only: one of another name is a
bad value.

Source: Protobuf's "Updating A Message Type", "Field Presence".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from barnabas.pipeline.formats.decoding import Decoded, error_column, sentence_of
from barnabas.pipeline.formats.fitting import fit
from barnabas.pipeline.formats.framing import FramingError, message_path, schema_id
from barnabas.pipeline.formats.protobuf_schema import (
    AS_JSON,
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    class_of,
    field_column,
    is_map,
    message_at,
    message_of,
    pool_of,
)
from barnabas.pipeline.formats.schema_registry import (
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
)

MICROS = 1_000_000
UNSIGNED = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)


class ProtobufDecoder:
    """The decoder of one task."""

    def __init__(
        self,
        reader: RegisteredSchema,
        message: str,
        wanted: pa.DataType,
        registry: SchemaRegistry | None,
    ) -> None:
        pool, file = pool_of(reader)
        self._descriptor = message_of(pool, file, message)
        self._class = class_of(self._descriptor)
        self._wanted = wanted
        self._registry = registry
        self._files: dict[int, Any] = {}
        names = {field.name for field in wanted} if pa.types.is_struct(wanted) else set()
        self._fields = [field for field in self._descriptor.fields if field.name in names]

    def __call__(self, values: pa.Array) -> Decoded:
        errors: dict[int, str] = {}
        messages: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            message = None
            if value is not None:
                try:
                    message = self._decode(value)
                except (DecodeError, ValueError, LookupError) as error:
                    errors[row] = sentence_of(error)
            messages.append(message)
        data = self._column(messages, errors)
        return Decoded(data, error_column(errors, len(values)))

    def _decode(self, value: bytes) -> Any:
        if self._registry is not None:
            path, begin = message_path(value) if len(value) > 5 else ((0,), len(value))
            name = self._name_of(schema_id(value), path)
            if name != self._descriptor.full_name:
                raise FramingError(f"a message {name}, not {self._descriptor.full_name}")
            value = value[begin:]
        return self._class.FromString(value)

    def _name_of(self, number: int, path: Sequence[int]) -> str:
        file = self._files.get(number)
        if file is None:
            assert self._registry is not None
            try:
                registered = self._registry.by_id(number)
                if registered.kind != "PROTOBUF":
                    raise FramingError(
                        f"schema {number} is of type {registered.kind}, not PROTOBUF"
                    )
                pool, name = pool_of(registered)
            except UnknownSchemaError as error:
                raise FramingError(str(error)) from error
            file = self._files[number] = pool.FindFileByName(name)
        try:
            return message_at(file, path)
        except IndexError as error:
            raise FramingError(f"schema {number} has no message {list(path)}") from error

    def _column(self, messages: Sequence[Any], errors: dict[int, str]) -> pa.Array:
        try:
            return fit(struct_of(messages, self._descriptor, self._fields), self._wanted)
        except (pa.ArrowException, ValueError, OverflowError):
            pass
        arrays = []
        for row, message in enumerate(messages):
            try:
                one = fit(struct_of([message], self._descriptor, self._fields), self._wanted)
            except (pa.ArrowException, ValueError, OverflowError) as error:
                errors[row] = sentence_of(error)
                one = pa.nulls(1, self._wanted)
            arrays.append(one)
        return pa.concat_arrays(arrays)


def struct_of(
    messages: Sequence[Any], descriptor: Descriptor, fields: Iterable[FieldDescriptor] | None = None
) -> pa.Array:
    """Messages of one type, None for null."""
    chosen = list(descriptor.fields if fields is None else fields)
    if not chosen:
        return pa.array([None if message is None else {} for message in messages], pa.struct([]))
    empty = class_of(descriptor)()
    there = [empty if message is None else message for message in messages]
    arrays = [_field_array(there, chosen_field) for chosen_field in chosen]
    mask = pa.array([message is None for message in messages], pa.bool_())
    names = [chosen_field.name for chosen_field in chosen]
    return pa.StructArray.from_arrays(arrays, names=names, mask=mask)


def _field_array(messages: Sequence[Any], field: FieldDescriptor) -> pa.Array:
    name = field.name
    if is_map(field):
        return _map_array([getattr(message, name) for message in messages], field)
    if field.is_repeated:
        lists = [getattr(message, name) for message in messages]
        inner = _single_array([one for items in lists for one in items], field)
        return pa.ListArray.from_arrays(_offsets(lists), inner, type=field_column(field).arrow)
    if field.has_presence:
        found = [getattr(message, name) if message.HasField(name) else None for message in messages]
    else:
        found = [getattr(message, name) for message in messages]
    return _single_array(found, field)


def _map_array(maps: Sequence[Any], field: FieldDescriptor) -> pa.Array:
    entry = field.message_type.fields_by_name
    keys = _single_array([key for mapping in maps for key in mapping], entry["key"])
    items = _single_array([mapping[key] for mapping in maps for key in mapping], entry["value"])
    return pa.MapArray.from_arrays(_offsets(maps), keys, items, type=field_column(field).arrow)


def _offsets(lists: Sequence[Any]) -> pa.Array:
    found, end = [0], 0
    for items in lists:
        end += len(items)
        found.append(end)
    return pa.array(found, pa.int32())


def _single_array(values: list[Any], field: FieldDescriptor) -> pa.Array:
    """Values of a field, None for null."""
    message = field.message_type
    if message is None:
        return _scalar_array(values, field)
    name = message.full_name
    if name in (TIMESTAMP, DURATION):
        numbers = [
            None if value is None else value.seconds * MICROS + value.nanos // 1000
            for value in values
        ]
        unit = pa.timestamp("us", "UTC") if name == TIMESTAMP else pa.duration("us")
        return pa.array(numbers, pa.int64()).cast(unit)
    if name in AS_JSON:
        return pa.array(
            [None if value is None else json_format.MessageToJson(value, indent=None) for value in values],
            pa.string(),
        )  # fmt: skip
    if name in WRAPPERS:
        inner = message.fields_by_name["value"]
        return _scalar_array([None if value is None else value.value for value in values], inner)
    return struct_of(values, message)


def _scalar_array(values: list[Any], field: FieldDescriptor) -> pa.Array:
    type_ = (
        field_column(field).arrow if not field.is_repeated else field_column(field).arrow.value_type
    )
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        values = [None if value is None else names.get(value, str(value)) for value in values]
    elif field.type in UNSIGNED:
        values = [None if value is None else Decimal(value) for value in values]
    return pa.array(values, type_)
