"""The schema that a query writes values with: found or registered once, on the driver, and sent to tasks.

Owns where it comes from: option ``value.schema``, a version of a registry's subject, or the columns of the
query (Avro, and JSON Schema for a registry). What is not in the registry yet is registered before the first
row is written, a Protobuf file behind those that it imports, each under its own name as Confluent's clients
do it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.framing import framed
from barnabas.pipeline.formats.json_schema import derived_json_schema
from barnabas.pipeline.formats.resolved_schema import KINDS, check_installed
from barnabas.pipeline.formats.schema_registry import (
    RegisteredSchema,
    RegistryError,
    SchemaRegistry,
)
from barnabas.pipeline.formats.value_options import ValueOptions
from barnabas.pipeline.formats.writing.encoding import Encoder

WELL_KNOWN = "google/protobuf/"


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """`registered` is that of avro and protobuf; `prefix` goes before each value."""

    options: ValueOptions
    registered: RegisteredSchema | None = None
    prefix: bytes = b""

    def encoder(self) -> Encoder:
        """The encoder of one task."""
        options = self.options
        if options.format == "avro":
            from barnabas.pipeline.formats.writing.avro_writing import AvroEncoder

            assert self.registered is not None
            return AvroEncoder(self.registered, self.prefix)
        if options.format == "protobuf":
            from barnabas.pipeline.formats.writing.protobuf_writing import ProtobufEncoder

            assert self.registered is not None
            return ProtobufEncoder(self.registered, options.message, self.prefix)
        from barnabas.pipeline.formats.writing.text_writing import TextEncoder

        return TextEncoder(options.format, options.delimiter, self.prefix)


def writer_schema(options: ValueOptions, columns: pa.DataType) -> WriterSchema:
    """The schema for a struct of these columns. Raises `OptionError`, also for what the registry says."""
    check_installed(options)
    try:
        # The columns are compared before anything is registered.
        found = _chosen(options, columns)
        found.encoder()(pa.array([], columns))
        return found if options.version else _registered(found, columns)
    except OptionError:
        raise
    except PipelineError as error:
        raise OptionError(f"value.schema: {error}") from error


def _chosen(options: ValueOptions, columns: pa.DataType) -> WriterSchema:
    name = options.format
    if options.version:
        assert options.registry is not None
        registry = SchemaRegistry.shared(options.registry, serialized=name == "protobuf")
        number, found = registry.registered(options.subject, options.version)
        if found.kind != KINDS[name]:
            raise RegistryError(f"subject {options.subject} is of type {found.kind}, not {name}")
        return WriterSchema(options, found, framed(number, _path(found, options)))
    match name:
        case "avro":
            from barnabas.pipeline.formats.writing.avro_writing import derived_schema

            text = options.schema or derived_schema(columns)
            return WriterSchema(options, RegisteredSchema("AVRO", text))
        case "protobuf":
            return WriterSchema(options, RegisteredSchema("DESCRIPTOR_SET", options.schema))
        case _:
            return WriterSchema(options)


def _registered(found: WriterSchema, columns: pa.DataType) -> WriterSchema:
    options = found.options
    if options.registry is None:
        return found
    registry = SchemaRegistry.shared(options.registry, serialized=options.format == "protobuf")
    if options.format == "protobuf":
        assert found.registered is not None
        number = _register_files(registry, found.registered, options)
        return WriterSchema(
            options, found.registered, framed(number, _path(found.registered, options))
        )
    if options.format == "json":
        text = options.schema or derived_json_schema(columns)
        try:
            json.loads(text)
        except ValueError as error:
            raise OptionError(f"value.schema is no JSON Schema: {error}") from error
    else:
        assert found.registered is not None
        text = found.registered.text
    number, _ = registry.register(options.subject, KINDS[options.format], text)
    return WriterSchema(options, found.registered, framed(number))


def _path(schema: RegisteredSchema, options: ValueOptions) -> tuple[int, ...] | None:
    """The path of the Protobuf message in its file."""
    if options.format != "protobuf":
        return None
    from barnabas.pipeline.formats.protobuf_schema import message_of, pool_of
    from barnabas.pipeline.formats.writing.protobuf_writing import path_of

    return path_of(message_of(*pool_of(schema), options.message))


def _register_files(
    registry: SchemaRegistry, schema: RegisteredSchema, options: ValueOptions
) -> int:
    """The id of the file that has the message."""
    from barnabas.pipeline.formats.protobuf_schema import message_of, pool_of

    known: dict[str, dict[str, Any]] = {}

    def references_of(file: Any) -> list[dict[str, Any]]:
        found = [
            dependency
            for dependency in file.dependencies
            if not dependency.name.startswith(WELL_KNOWN)
        ]
        return [reference(dependency) for dependency in found]

    def reference(file: Any) -> dict[str, Any]:
        if file.name not in known:
            _, version = registry.register(
                file.name, "PROTOBUF", text_of(file), references_of(file)
            )
            known[file.name] = {"name": file.name, "subject": file.name, "version": version}
        return known[file.name]

    def text_of(file: Any) -> str:
        return base64.b64encode(file.serialized_pb).decode()

    own = message_of(*pool_of(schema), options.message).file
    number, _ = registry.register(options.subject, "PROTOBUF", text_of(own), references_of(own))
    return number
