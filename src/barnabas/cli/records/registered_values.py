"""Values that a schema registry describes, as JSON: Avro, Protobuf and JSON Schema in Confluent's framing.

The decoders are those of pipelines, which need no Spark. The packages that they need are loaded with the
first value. A registry that does not answer is asked once for each page of the console, and once for each
``barnabas consume``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.pipeline.formats.schema_registry import RegisteredSchema, SchemaRegistry

ANSWER_MS_MAX = 2_000.0
"""A page waits so long for a registry."""
NEEDED = "decoding needs packages: pip install 'barnabas[fast,formats]'"


@dataclass
class RegisteredValues:
    """Decodes the values of one page, or of one command, by the registry at `url`."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    problem: str = ""
    """Why nothing more is decoded."""
    _decoders: dict[int, Any] = field(default_factory=dict, repr=False)

    def text_of(self, value: bytes) -> tuple[str | None, str]:
        """The value as JSON, or None and a sentence that says why it is none."""
        if self.problem:
            return None, self.problem
        try:
            return self._decoded(value)
        except ImportError:
            self.problem = NEEDED
            return None, NEEDED

    def _decoded(self, value: bytes) -> tuple[str | None, str]:
        from barnabas.pipeline.errors import PipelineError
        from barnabas.pipeline.formats.framing import FramingError, schema_id
        from barnabas.pipeline.formats.schema_registry import UnknownSchemaError

        try:
            number = schema_id(value)
            if number not in self._decoders:
                self._decoders[number] = self._decoder_of(number)
            return self._decoders[number](value), ""
        except (FramingError, UnknownSchemaError) as error:
            return None, str(error)
        except PipelineError as error:
            self.problem = str(error)
            return None, self.problem
        except (ValueError, RecursionError) as error:
            return None, str(error)

    def _decoder_of(self, number: int) -> Any:
        """Makes JSON of a framed value of this schema. Raises ``RegistryError``, ``PipelineError``."""
        registry = self._registry(serialized=False)
        found = registry.by_id(number)
        if found.kind == "AVRO":
            return _avro_decoder(found, registry)
        if found.kind == "PROTOBUF":
            return _protobuf_decoder(self._registry(serialized=True).by_id(number))
        if found.kind == "JSON":
            return _json_text
        raise ValueError(f"schema {number} is of type {found.kind}")

    def _registry(self, *, serialized: bool) -> SchemaRegistry:
        return _registry_at(self.url, self.user, self.password, serialized)


@lru_cache(maxsize=8)
def _registry_at(url: str, user: str, password: str, serialized: bool) -> SchemaRegistry:
    """A registry with its cache of schemas, which all pages share."""
    from barnabas.pipeline.formats.schema_registry import SchemaRegistry
    from barnabas.pipeline.formats.value_options import RegistryOptions

    urls = tuple(one.strip().rstrip("/") for one in url.split(","))
    options = RegistryOptions(urls, user, password)
    return SchemaRegistry(options, serialized=serialized, patience_ms=ANSWER_MS_MAX)


def _avro_decoder(schema: RegisteredSchema, registry: SchemaRegistry) -> Any:
    import pyarrow as pa

    from barnabas.pipeline.formats.avro_schema import columns_of
    from barnabas.pipeline.formats.avro_values import AvroDecoder

    decoder = AvroDecoder(schema, columns_of(schema).arrow, registry)

    def decode(value: bytes) -> str:
        found = decoder(pa.array([value], pa.binary()))
        error = found.errors.to_pylist()[0]
        if error is not None:
            raise ValueError(error)
        return json.dumps(found.data.to_pylist()[0], indent=2, ensure_ascii=False, default=str)

    return decode


def _protobuf_decoder(schema: RegisteredSchema) -> Any:
    from google.protobuf.json_format import MessageToJson
    from google.protobuf.message import DecodeError

    from barnabas.pipeline.formats.framing import message_path
    from barnabas.pipeline.formats.protobuf_schema import class_of, message_at, message_of, pool_of

    pool, name = pool_of(schema)
    file = pool.FindFileByName(name)

    def decode(value: bytes) -> str:
        path, begin = message_path(value)
        try:
            descriptor = message_of(pool, name, message_at(file, path))
            message = class_of(descriptor).FromString(value[begin:])
        except (DecodeError, IndexError) as error:
            raise ValueError(f"no message of its schema: {error}") from None
        return str(MessageToJson(message, preserving_proto_field_name=True, ensure_ascii=False))

    return decode


def _json_text(value: bytes) -> str:
    from barnabas.pipeline.formats.framing import HEADER_BYTES

    return json.dumps(json.loads(value[HEADER_BYTES:]), indent=2, ensure_ascii=False)
