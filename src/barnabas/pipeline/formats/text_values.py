"""Values decoded in the worker, straight to Arrow: ``value.format`` json or csv with ``value.schema``.

Owns the way from a column of raw values to a struct column `data` and an error column `_error`. Rows keep
their places. Arrow's readers take many values at once
and fail for all of them together, so a lot that fails is halved until the bad value is alone; a lot without
a bad value costs one call.

A value that is null (a tombstone) gives null data and no error. What counts as bad: no UTF-8, not exactly one
JSON object or CSV row, a field of another type than the schema says. Fields that the schema lacks are left
out; fields that the value lacks are null. A JSON field twice in one value is bad.

Arrow's JSON reader is given nothing but whole objects: others move rows, and ``null`` ends the process
(:func:`barnabas.record.json_kernels.mark_objects`). What a schema names more than once, or a date below the
top level, is refused by Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from barnabas.pipeline.formats.decoding import Decoded, error_column, sentence_of
from barnabas.pipeline.formats.framing import HEADER_BYTES, MAGIC
from barnabas.record.json_kernels import lay_lines, mark_objects

BLOCK_BYTES_MIN = 1 << 16
NOT_FRAMED = "the value has no schema id: no zero byte and 4 bytes at its begin"
Parse = Callable[[memoryview, int], pa.Table]


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How values are decoded. `delimiter` is that of csv."""

    name: str
    fields: pa.Schema
    delimiter: str = ","


class TextDecoder:
    """The decoder of one task, for values with and without a schema's id before the text (`is_framed`)."""

    def __init__(
        self, name: str, wanted: pa.DataType, delimiter: str, *, is_framed: bool = False
    ) -> None:
        self._format = ValueFormat(name, pa.schema(list(wanted)), delimiter)
        self._wanted = wanted
        self._is_framed = is_framed

    def __call__(self, values: pa.Array) -> Decoded:
        if not self._is_framed:
            return decode_values(values, self._format)
        bodies: list[bytes | None] = []
        bare = []
        # Arrow's binary_slice fails for a column with short values in it.
        for row, value in enumerate(values.to_pylist()):
            fine = value is not None and len(value) >= HEADER_BYTES and value[0] == MAGIC
            bodies.append(value[HEADER_BYTES:] if fine else None)
            if value is not None and not fine:
                bare.append(row)
        found = decode_values(pa.array(bodies, pa.binary()), self._format)
        errors = {
            row: error for row, error in enumerate(found.errors.to_pylist()) if error is not None
        }
        errors |= dict.fromkeys(bare, NOT_FRAMED)
        rows = len(values)
        return Decoded(found.data, error_column(errors, rows))


def decode_values(values: pa.Array, format_: ValueFormat) -> Decoded:
    """`values` is a binary column."""
    rows = len(values)
    lines, ends, fine = _lines_of(values, format_)
    whole = np.flatnonzero(fine)
    errors: dict[int, str] = {
        int(row): f"not one {'JSON object' if format_.name == 'json' else 'CSV row'}"
        for row in np.flatnonzero(~fine & np.asarray(values.is_valid()))
    }
    parse = _parser(format_)
    tables: list[pa.Table] = []
    places: list[Any] = []
    _parse_lots(parse, lines, ends, whole, tables, places, errors)
    found = pa.concat_tables(tables).combine_chunks() if tables else format_.fields.empty_table()
    if not len(format_.fields):
        return Decoded(pa.nulls(rows), error_column(errors, rows))
    struct = _struct_of(found, format_.fields)
    if len(struct) == rows and len(tables) == 1:
        return Decoded(struct, error_column(errors, rows))
    order = np.full(rows, -1, np.int64)
    if places:
        order[np.concatenate(places)] = np.arange(len(struct))
    places_in = pa.array(np.maximum(order, 0), mask=order < 0)
    data = struct.take(places_in) if len(struct) else pa.nulls(rows, struct.type)
    return Decoded(data, error_column(errors, rows))


def _lines_of(values: pa.Array, format_: ValueFormat) -> tuple[memoryview, Any, Any]:
    """Values end to end, each with a newline behind it and none in it; where each ends; and whether it
    can be given to Arrow's reader."""
    rows = len(values)
    starts = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + rows + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    lines = np.empty(int(starts[-1] - starts[0]) + rows, np.uint8)
    lay_lines(data, starts, lines)
    bounds = (starts - starts[0]).astype(np.int64) + np.arange(rows + 1)
    fine = np.zeros(rows, np.uint8)
    mark_objects(lines, bounds, fine, 1 if format_.name == "json" else 0)
    return lines.data, bounds[1:], fine.astype(bool) & np.asarray(values.is_valid())


def _parse_lots(
    parse: Parse,
    lines: memoryview,
    ends: Any,
    rows: Any,
    tables: list[pa.Table],
    places: list[Any],
    errors: dict[int, str],
) -> None:
    """Parse `rows`; where that fails, halves of them, each in its order."""
    waiting = [rows]
    while waiting:
        lot = waiting.pop()
        if not len(lot):
            continue
        if int(lot[-1]) - int(lot[0]) + 1 == len(lot):
            text = lines[(int(ends[lot[0] - 1]) if lot[0] else 0) : int(ends[lot[-1]])]
        else:
            text = memoryview(
                b"".join(lines[(int(ends[row - 1]) if row else 0) : int(ends[row])] for row in lot)
            )
        try:
            table = parse(text, len(lot))
        except (pa.ArrowException, UnicodeDecodeError, ValueError) as error:
            if len(lot) == 1:
                errors[int(lot[0])] = sentence_of(error)
                continue
            half = len(lot) // 2
            waiting += [lot[half:], lot[:half]]
            continue
        tables.append(table)
        places.append(lot)


def _parser(format_: ValueFormat) -> Parse:
    """Reads timestamps in microseconds. Where that fails for a lot they are read in nanoseconds and
    truncated, as by Spark's ``from_json``: Arrow reads no finer fraction than it is asked for, and in
    nanoseconds years from 1677 to 2262 only."""
    make = _json_parser if format_.name == "json" else _csv_parser
    parse = make(format_, format_.fields)
    finer = pa.schema([field.with_type(_in_nanoseconds(field.type)) for field in format_.fields])
    if finer.equals(format_.fields):
        return parse
    parse_finer = make(format_, finer)

    def parse_either(text: memoryview, rows: int) -> pa.Table:
        try:
            return parse(text, rows)
        except pa.ArrowException as error:
            try:
                return parse_finer(text, rows)
            except (pa.ArrowException, ValueError):
                raise error from None

    return parse_either


def _in_nanoseconds(type_: pa.DataType) -> pa.DataType:
    """The type with its timestamps in nanoseconds, at any depth."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ns", type_.tz)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_in_nanoseconds(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_in_nanoseconds(type_.value_type)))
    return type_


def _json_parser(format_: ValueFormat, fields: pa.Schema) -> Parse:
    read_as = pa.schema([field.with_type(_json_type(field.type)) for field in fields])
    options = pajson.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="ignore")

    def parse(text: memoryview, rows: int) -> pa.Table:
        str(text, "utf-8")  # Arrow does not look whether strings are UTF-8
        reading = pajson.ReadOptions(use_threads=False, block_size=max(len(text), BLOCK_BYTES_MIN))
        table = pajson.read_json(pa.BufferReader(text), read_options=reading, parse_options=options)
        return _checked(table, format_.fields, rows)

    return parse


def _json_type(type_: pa.DataType) -> pa.DataType:
    """Dates are numbers to Arrow's JSON reader: they are read as text."""
    return pa.string() if pa.types.is_date(type_) else type_


def _csv_parser(format_: ValueFormat, fields: pa.Schema) -> Parse:
    names = fields.names
    parsing = pacsv.ParseOptions(delimiter=format_.delimiter, ignore_empty_lines=False)
    converting = pacsv.ConvertOptions(
        column_types=fields, strings_can_be_null=True, quoted_strings_can_be_null=False
    )

    def parse(text: memoryview, rows: int) -> pa.Table:
        reading = pacsv.ReadOptions(
            use_threads=False, block_size=max(len(text) + 1, BLOCK_BYTES_MIN), column_names=names
        )
        table = pacsv.read_csv(pa.BufferReader(text), reading, parsing, converting)
        return _checked(table, format_.fields, rows)

    return parse


def _checked(table: pa.Table, fields: pa.Schema, rows: int) -> pa.Table:
    if table.num_rows != rows:
        raise ValueError(f"{table.num_rows} rows in a value")
    return table.cast(fields, safe=False)  # nanoseconds are truncated


def _struct_of(table: pa.Table, fields: pa.Schema) -> pa.StructArray:
    columns = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for column in table.columns
    ]
    arrays = [
        pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        for column in columns
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(fields))
