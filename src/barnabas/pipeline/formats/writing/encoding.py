"""The contract of every encoder of values: a struct column becomes bytes, or an error names row and column.

Owns the way from Arrow's types to those that a format has, and which row and column do not fit. A null struct
is a null value, a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.formats.decoding import sentence_of
from barnabas.pipeline.formats.fitting import fit

UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
NUMBERS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_timestamp, pa.int64()),
    (pa.types.is_duration, pa.int64()),
    (pa.types.is_date, pa.int32()),
)


class BadRowError(ValueError):
    """A row cannot be written in the format. `row` counts from 0 in the column that was given."""

    def __init__(self, row: int, column: str, why: str) -> None:
        super().__init__(f"{column}: {why}")
        self.row = row


class Encoder(Protocol):
    """The encoder of one task."""

    def __call__(self, values: pa.StructArray) -> pa.Array:
        """A binary column. Raises `BadRowError`, and `OptionError` where the columns do not fit."""


def narrowed(natural: pa.DataType, given: pa.DataType, name: str = "value") -> pa.DataType:
    """`natural` with the fields that are given. Raises `OptionError` for a column that it lacks."""
    if pa.types.is_struct(natural) and pa.types.is_struct(given):
        there = {field.name: field.type for field in natural}
        for field in given:
            if field.name not in there:
                raise OptionError(f"column {name}.{field.name} is not in the schema")
        return pa.struct(
            [
                (field.name, narrowed(there[field.name], field.type, f"{name}.{field.name}"))
                for field in given
            ]
        )
    if pa.types.is_list(natural) and pa.types.is_list(given):
        return pa.list_(narrowed(natural.value_type, given.value_type, name))
    if pa.types.is_map(natural) and pa.types.is_map(given):
        return pa.map_(natural.key_type, narrowed(natural.item_type, given.item_type, name))
    nested = (pa.types.is_struct, pa.types.is_list, pa.types.is_map)
    if any(is_such(natural) or is_such(given) for is_such in nested):
        raise OptionError(f"column {name} is {given}, and {natural} in the schema")
    return natural


def numbered(type_: pa.DataType) -> pa.DataType:
    """With numbers for what Python would have objects for."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, numbered(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(numbered(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(numbered(type_.key_type), numbered(type_.item_type))
    return next((number for is_such, number in NUMBERS if is_such(type_)), type_)


def rows_of(
    values: pa.StructArray, natural: pa.DataType, *, numbers: bool = True
) -> list[dict[str, Any] | None]:
    """Rows as dictionaries, lists and pairs of maps, of the types of `natural`; with `numbers` time is in
    numbers of its units. Raises `BadRowError`."""
    wanted = narrowed(natural, values.type)
    plain = numbered(wanted) if numbers else wanted
    columns = []
    for field, column in zip(wanted, values.flatten(), strict=True):
        try:
            columns.append(listed(column, field.type, plain.field(field.name).type))
        except UNFIT:
            raise _first_unfit(column, values, field) from None
    names = [field.name for field in wanted]
    is_there = values.is_valid().to_pylist()
    rows = zip(*columns, strict=True) if columns else ((),) * len(values)
    return [
        dict(zip(names, row, strict=True)) if there else None
        for there, row in zip(is_there, rows, strict=True)
    ]


def listed(column: pa.Array, fitted: pa.DataType, plain: pa.DataType) -> list[Any]:
    found: list[Any] = fit(fit(pa.array(column), fitted), plain).to_pylist()
    return found


def _first_unfit(column: pa.Array, values: pa.StructArray, field: pa.Field) -> BadRowError:
    """Which row it is that Arrow refused all of them for."""
    for row in range(len(column)):
        if not values[row].is_valid:
            continue
        try:
            listed(column.slice(row, 1), field.type, numbered(field.type))
        except UNFIT as error:
            return BadRowError(row, f"value.{field.name}", sentence_of(error))
    return BadRowError(0, f"value.{field.name}", f"{column.type} does not become {field.type}")
