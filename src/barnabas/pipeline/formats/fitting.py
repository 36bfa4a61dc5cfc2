"""Columns of a reader schema made into those that a query reads.

Structs go by the names of their fields: what the query does not read is left out, what the schema lacks is
null. Everything else is Arrow's cast, which refuses what would change a value.
"""

from __future__ import annotations

import pyarrow as pa


def fit(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Raises ``pa.ArrowInvalid`` where a value has no place in `wanted`."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        if not len(wanted):
            return pa.nulls(len(array), wanted)
        names = {field.name for field in array.type}
        children = [
            fit(pa.array(array.field(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_list(wanted) and pa.types.is_list(array.type):
        inner = fit(array.values, wanted.value_type)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(_offsets(array), inner, type=wanted, mask=mask)
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        keys, items = fit(array.keys, wanted.key_type), fit(array.items, wanted.item_type)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=wanted, mask=mask)
    return array.cast(wanted)


def _offsets(array: pa.Array) -> pa.Array:
    """The offsets of an array that begins at its buffers' begin."""
    return pa.Array.from_buffers(
        pa.int32(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset
    )
