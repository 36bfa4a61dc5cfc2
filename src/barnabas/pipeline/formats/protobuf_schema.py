"""Protobuf messages as columns, by descriptors: no generated code, no ``protoc`` on the machine.

Owns pools of descriptors, from a descriptor set (``protoc --descriptor_set_out --include_imports``) or from a
registry's serialized files, and the mapping to Spark's and Arrow's types, that of Spark's ``from_protobuf``,
with two exceptions: ``uint32`` is a bigint and ``uint64`` a decimal(20,0), so that none becomes negative, and
wrappers (``google.protobuf.Int64Value``) are the value, or null. ``google.protobuf.Struct``, ``Value`` and
``ListValue`` are JSON text. A message within itself has no column.

Source: Protobuf's ``descriptor.proto``; Spark's ``SchemaConverters`` of spark-protobuf.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.avro_schema import Column
from barnabas.pipeline.formats.schema_registry import RegisteredSchema

WELL_KNOWN = (
    "any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
F = FieldDescriptor
INT = Column("int", pa.int32())
BIGINT = Column("bigint", pa.int64())
UNSIGNED = Column("decimal(20,0)", pa.decimal128(20, 0))
STRING = Column("string", pa.string())
SCALARS = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), INT),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), BIGINT),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), BIGINT),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), UNSIGNED),
    **dict.fromkeys((F.TYPE_STRING, F.TYPE_ENUM), STRING),
    F.TYPE_FLOAT: Column("float", pa.float32()),
    F.TYPE_DOUBLE: Column("double", pa.float64()),
    F.TYPE_BOOL: Column("boolean", pa.bool_()),
    F.TYPE_BYTES: Column("binary", pa.binary()),
}
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
AS_JSON = frozenset({f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue")})
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


def pool_of(schema: RegisteredSchema) -> tuple[Any, str]:
    """A pool with the schema's files, and the name of the file that is the schema itself. Of a descriptor set
    it is the last one. Raises `PipelineError`."""
    files = _files_of(schema)
    pool = descriptor_pool.DescriptorPool()
    left = {file.name: file for file in files}
    try:
        for file in files:
            _add(pool, file.name, left)
    except (TypeError, ValueError, KeyError) as error:
        raise PipelineError(f"these are no Protobuf descriptors: {error}") from error
    return pool, files[-1].name


def _files_of(schema: RegisteredSchema) -> list[Any]:
    try:
        content = base64.b64decode(schema.text, validate=True)
        if schema.kind == "DESCRIPTOR_SET":
            found = list(descriptor_pb2.FileDescriptorSet.FromString(content).file)
        else:
            found = []
            for name, reference in schema.references:
                within = _files_of(reference)
                within[-1].name = name
                found += within
            own = descriptor_pb2.FileDescriptorProto.FromString(content)
            own.name = own.name or "schema.proto"
            found.append(own)
    except (DecodeError, ValueError) as error:
        raise PipelineError(f"these are no Protobuf descriptors: {error}") from error
    if not found:
        raise PipelineError("the Protobuf descriptor set is empty")
    return found


def _add(pool: Any, name: str, left: dict[str, Any]) -> None:
    file = left.pop(name, None)
    if file is None:
        _add_well_known(pool, name)
        return
    for dependency in file.dependency:
        _add(pool, dependency, left)
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())


def _add_well_known(pool: Any, name: str) -> None:
    """One that is in the pool already is left alone; what is not known ends in the pool's own error."""
    from importlib import import_module

    try:
        pool.FindFileByName(name)
        return
    except KeyError:
        short = name.removeprefix("google/protobuf/").removesuffix(".proto")
        if short not in WELL_KNOWN:
            raise KeyError(f"the file {name} is imported and not there") from None
    found = import_module(f"google.protobuf.{short}_pb2").DESCRIPTOR
    for dependency in found.dependencies:
        _add_well_known(pool, dependency.name)
    pool.AddSerializedFile(found.serialized_pb)


def message_of(pool: Any, file: str, name: str) -> Descriptor:
    """The message by full name, or the file's first where there is none. Raises `OptionError`."""
    if not name:
        messages = list(pool.FindFileByName(file).message_types_by_name.values())
        if not messages:
            raise OptionError("the Protobuf schema has no message")
        return messages[0]
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise OptionError(f"value.schema.message: there is no message {name}") from error


def message_at(file: FileDescriptor, path: Sequence[int]) -> str:
    """The full name of the message at these indexes. Raises `IndexError`."""
    if any(index < 0 for index in path):
        raise IndexError(path)
    found = list(file.message_types_by_name.values())[path[0]]
    for index in path[1:]:
        found = found.nested_types[index]
    return str(found.full_name)


def class_of(descriptor: Descriptor) -> Any:
    return message_factory.GetMessageClass(descriptor)


def column_of(descriptor: Descriptor, above: tuple[str, ...] = ()) -> Column:
    """The column of a message. Raises `OptionError`."""
    name = descriptor.full_name
    if name in above:
        raise OptionError(f"Protobuf message {name} contains itself: it has no column type")
    fields = {field.name: field_column(field, (*above, name)) for field in descriptor.fields}
    if not fields:
        raise OptionError(f"Protobuf message {name} has no fields: it has no column type")
    inner = ", ".join(f"`{field}`: {column.ddl}" for field, column in fields.items())
    return Column(
        f"struct<{inner}>", pa.struct([(field, column.arrow) for field, column in fields.items()])
    )


def is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return message is not None and message.GetOptions().map_entry


def field_column(field: FieldDescriptor, above: tuple[str, ...] = ()) -> Column:
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = single_column(entry["key"], above), single_column(entry["value"], above)
        return Column(f"map<{key.ddl}, {value.ddl}>", pa.map_(key.arrow, value.arrow))
    column = single_column(field, above)
    if field.is_repeated:
        return Column(f"array<{column.ddl}>", pa.list_(column.arrow))
    return column


def single_column(field: FieldDescriptor, above: tuple[str, ...] = ()) -> Column:
    """The column of one value of a field, repeated or not."""
    if field.message_type is None:
        return SCALARS[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return Column("timestamp", pa.timestamp("us", "UTC"))
    if name == DURATION:
        return Column("interval day to second", pa.duration("us"))
    if name in AS_JSON:
        return Column("string", pa.string())
    if name in WRAPPERS:
        return SCALARS[field.message_type.fields_by_name["value"].type]
    return column_of(field.message_type, above)
