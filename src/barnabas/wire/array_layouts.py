"""Struct layouts of arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any

SMALL_ARRAY = 33
"""Layouts of arrays with fewer numbers than this are cached."""


@cache
def small_layouts(code: str, method: str) -> list[Callable[..., Any]]:
    """`method` of the layout of n elements, at index n."""
    return [getattr(array_layout(code, count), method) for count in range(SMALL_ARRAY)]


def array_layout(code: str, count: int) -> Struct:
    return Struct(f">{count}{code}")
