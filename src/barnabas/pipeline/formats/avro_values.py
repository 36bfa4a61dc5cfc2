"""Avro values decoded in the worker: each by its writer's schema, resolved to the reader's, as one column.

Owns the cache of writers' schemas of a task. A value is bad that is not framed where a registry is named,
whose schema the registry does not have or Avro cannot resolve, that ends early, or has bytes behind its end.

Source: Avro's "Schema Resolution"; fastavro does it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.avro_schema import columns_of, parsed
from barnabas.pipeline.formats.decoding import Decoded, error_column, sentence_of
from barnabas.pipeline.formats.fitting import fit
from barnabas.pipeline.formats.framing import HEADER_BYTES, FramingError, schema_id
from barnabas.pipeline.formats.schema_registry import (
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
)

BAD = (
    ValueError, EOFError, LookupError, TypeError, OverflowError, ArithmeticError, RecursionError,
    MemoryError, struct.error, AttributeError, SchemaResolutionError,
)  # fmt: skip
"""The errors that fastavro raises for bytes that are no value of the schema."""


class AvroDecoder:
    """The decoder of one task. Without a registry a value is the bare datum, written with the reader's
    schema."""

    def __init__(
        self, reader: RegisteredSchema, wanted: pa.DataType, registry: SchemaRegistry | None
    ) -> None:
        self._reader = parsed(reader)
        self._natural = columns_of(reader).arrow
        self._wanted = wanted
        self._registry = registry
        self._text = reader.text
        self._writers: dict[int, tuple[Any, Any] | str] = {}

    def __call__(self, values: pa.Array) -> Decoded:
        errors: dict[int, str] = {}
        found: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                found.append(None)
                continue
            try:
                found.append(self._decode(value))
            except BAD as error:
                errors[row] = sentence_of(error)
                found.append(None)
        data = self._column(found, errors)
        return Decoded(data, error_column(errors, len(values)))

    def _decode(self, value: bytes) -> Any:
        if self._registry is None:
            writer, reader, begin = self._reader, None, 0
        else:
            writer, reader = self._schemas_of(schema_id(value))
            begin = HEADER_BYTES
        stream = BytesIO(value)
        stream.seek(begin)
        found = schemaless_reader(stream, writer, reader)
        left = len(value) - stream.tell()
        if left:
            raise ValueError(f"{left} bytes follow the value")
        return found

    def _schemas_of(self, number: int) -> tuple[Any, Any]:
        """The writer's, and the reader's where it is another. Raises `FramingError` for one that is
        unknown."""
        known = self._writers.get(number)
        if known is None:
            assert self._registry is not None
            try:
                registered = self._registry.by_id(number)
            except UnknownSchemaError as error:
                raise FramingError(str(error)) from error
            known = self._parsed(number, registered)
            self._writers[number] = known
        if isinstance(known, str):
            raise FramingError(known)
        return known

    def _parsed(self, number: int, registered: RegisteredSchema) -> tuple[Any, Any] | str:
        if registered.kind != "AVRO":
            return f"schema {number} is of type {registered.kind}, not AVRO"
        try:
            writer = parsed(registered)
        except (PipelineError, SchemaParseException, UnknownType) as error:
            return f"schema {number}: {error}"
        return writer, None if registered.text == self._text else self._reader

    def _column(self, found: Sequence[Any], errors: dict[int, str]) -> pa.Array:
        try:
            return fit(pa.array(found, self._natural), self._wanted)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return self._one_by_one(found, errors)

    def _one_by_one(self, found: Sequence[Any], errors: dict[int, str]) -> pa.Array:
        """Decode one by one where a value that Avro takes has no place in a column: a date of the year
        300,000."""
        arrays = []
        for row, value in enumerate(found):
            try:
                arrays.append(fit(pa.array([value], self._natural), self._wanted))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                errors[row] = sentence_of(error)
                arrays.append(pa.nulls(1, self._wanted))
        return pa.concat_arrays(arrays) if arrays else pa.nulls(0, self._wanted)
