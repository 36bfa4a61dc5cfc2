"""Protobuf files as descriptors, as ``protoc`` and a registry give them; built here, without ``protoc``."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2

F = descriptor_pb2.FieldDescriptorProto
TIMESTAMP = ".google.protobuf.Timestamp"
INT64 = ".google.protobuf.Int64Value"


def place_file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="place.proto", package="air", syntax="proto3")
    place = file.message_type.add(name="Place")
    place.field.add(name="x", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    return file


def flight_file(*, with_gate: bool = False) -> Any:
    """Messages ``air.Other`` and ``air.Flight``, with ``air.Flight.Leg`` inside."""
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="air", syntax="proto3")
    file.dependency.extend(
        ["place.proto", "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"]
    )
    other = file.message_type.add(name="Other")
    other.field.add(name="a", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    flight = file.message_type.add(name="Flight")
    leg = flight.nested_type.add(name="Leg")
    leg.field.add(name="n", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    tags = flight.nested_type.add(name="TagsEntry")
    tags.options.map_entry = True
    tags.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    tags.field.add(name="value", number=2, type=F.TYPE_UINT32, label=F.LABEL_OPTIONAL)
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="PLANE", number=0)
    kind.value.add(name="TRAIN", number=1)
    add = flight.field.add
    add(name="id", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
    add(name="kind", number=2, type=F.TYPE_ENUM, type_name=".air.Kind", label=F.LABEL_OPTIONAL)
    add(
        name="legs",
        number=3,
        type=F.TYPE_MESSAGE,
        type_name=".air.Flight.Leg",
        label=F.LABEL_REPEATED,
    )
    add(
        name="tags",
        number=4,
        type=F.TYPE_MESSAGE,
        type_name=".air.Flight.TagsEntry",
        label=F.LABEL_REPEATED,
    )
    add(name="place", number=5, type=F.TYPE_MESSAGE, type_name=".air.Place", label=F.LABEL_OPTIONAL)
    add(name="at", number=6, type=F.TYPE_MESSAGE, type_name=TIMESTAMP,
        label=F.LABEL_OPTIONAL)  # fmt: skip
    add(name="seats", number=7, type=F.TYPE_MESSAGE, type_name=INT64,
        label=F.LABEL_OPTIONAL)  # fmt: skip
    add(name="big", number=8, type=F.TYPE_UINT64, label=F.LABEL_OPTIONAL)
    if with_gate:
        add(name="gate", number=9, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    return file


def base64_of(message: Any) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def descriptor_set(*files: Any) -> str:
    return base64_of(descriptor_pb2.FileDescriptorSet(file=files))
