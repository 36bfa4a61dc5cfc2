"""The reader schema of a query: found once, on the driver, and sent to the tasks as it is.

Owns where it comes from (an option, a file, a subject of a registry) and the columns that it gives. Later
versions of a subject change neither the columns nor the tasks of a query that runs; writers' schemas are
resolved to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.schema_registry import (
    RegisteredSchema,
    RegistryError,
    SchemaRegistry,
)
from barnabas.pipeline.formats.value_options import ValueOptions, value_options

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.formats.decoding import Decoder

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}


@dataclass(frozen=True, slots=True)
class ReaderSchema:
    """`registered` is that of avro and protobuf; `ddl` has the columns of `data`."""

    options: ValueOptions
    ddl: str
    registered: RegisteredSchema | None = None

    def decoder(self, wanted: pa.DataType) -> Decoder:
        """The decoder of one task, for the fields of `wanted`."""
        options = self.options
        registry = None
        if options.registry is not None:
            registry = SchemaRegistry.shared(
                options.registry, serialized=options.format == "protobuf"
            )
        if options.format == "avro":
            from barnabas.pipeline.formats.avro_values import AvroDecoder

            assert self.registered is not None
            return AvroDecoder(self.registered, wanted, registry)
        if options.format == "protobuf":
            from barnabas.pipeline.formats.protobuf_values import ProtobufDecoder

            assert self.registered is not None
            return ProtobufDecoder(self.registered, options.message, wanted, registry)
        from barnabas.pipeline.formats.text_values import TextDecoder

        return TextDecoder(
            options.format, wanted, options.delimiter, is_framed=registry is not None
        )


def reader_schema(options: Mapping[str, str]) -> ReaderSchema | None:
    """The schema of a reader's options, None where values stay bytes. Raises `OptionError`."""
    values = value_options(options)
    return None if values is None else resolved(values)


def resolved(values: ValueOptions) -> ReaderSchema:
    """Raises `OptionError`, also for what the registry says."""
    check_installed(values)
    try:
        return _resolved(values)
    except OptionError:
        raise
    except PipelineError as error:
        raise OptionError(f"value.schema: {error}") from error


def check_installed(values: ValueOptions) -> None:
    """Raises `OptionError`."""
    needed = {"avro": "fastavro", "protobuf": "google.protobuf"}.get(values.format)
    if needed is not None and not _is_installed(needed):
        raise OptionError(
            f"value.format {values.format} needs {needed}: pip install 'barnabas[formats]'"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _resolved(values: ValueOptions) -> ReaderSchema:
    name = values.format
    if values.schema and name in ("json", "csv"):
        return ReaderSchema(values, f"struct<{values.schema}>")
    found = RegisteredSchema("DESCRIPTOR_SET" if name == "protobuf" else KINDS[name], values.schema)
    if not values.schema:
        assert values.registry is not None
        registry = SchemaRegistry.shared(values.registry, serialized=name == "protobuf")
        found = registry.by_subject(values.subject, values.version)
        if found.kind != KINDS[name]:
            raise RegistryError(f"subject {values.subject} is of type {found.kind}, not {name}")
    match name:
        case "avro":
            from barnabas.pipeline.formats.avro_schema import columns_of, parsed

            parsed(found)
            return ReaderSchema(values, columns_of(found).ddl, found)
        case "protobuf":
            from barnabas.pipeline.formats.protobuf_schema import column_of, message_of, pool_of

            pool, file = pool_of(found)
            ddl = column_of(message_of(pool, file, values.message)).ddl
            return ReaderSchema(values, ddl, found)
        case _:
            from barnabas.pipeline.formats.json_schema import ddl_of

            return ReaderSchema(values, f"struct<{ddl_of(found.text)}>")
