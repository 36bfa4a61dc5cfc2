"""The result of every decoder of values: as many rows as there were values, each good, null or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

ERROR_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded values: as many rows as there were values."""

    data: pa.Array
    errors: pa.Array


Decoder = Callable[[pa.Array], Decoded]
"""The decoder of a binary column."""


def error_column(errors: Mapping[int, str], rows: int) -> pa.Array:
    """`errors` by row."""
    if not errors:
        return pa.nulls(rows, pa.string())
    return pa.array([errors.get(row) for row in range(rows)], pa.string())


def sentence_of(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:ERROR_CHARACTERS_MAX]
