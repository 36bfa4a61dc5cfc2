"""Shapes of JSON values: what they are made of, whether a value has one, and how a page shows one.

A shape is a Python type (``str``, ``int``, ``float``, ``bool``), a union of some with None, a list of one
shape, a dict with a shape for each key, or a `Map`. A key that ends with ``?`` may be missing. `ANY` is every
value. New keys may come with a new version; a key that is there keeps its name and its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args

Shape = Any
_NAMES = {str: "string", int: "integer", float: "number", bool: "true or false", NoneType: "null"}


class Map(NamedTuple):
    """An object with names of the cluster as keys, and values of one shape."""

    keys: str
    """The kind of name that its keys are."""
    values: Shape


class Either(NamedTuple):
    """One of several shapes; which one depends on the options."""

    shapes: tuple[Shape, ...]


ANY = object()


def mismatches(value: Any, shape: Shape, at: str = "$") -> Iterator[str]:
    """A sentence for each place where `value` does not have the shape."""
    if shape is ANY:
        return
    if isinstance(shape, Either):
        tried = [list(mismatches(value, one, at)) for one in shape.shapes]
        if all(tried):
            yield from min(tried, key=len)
    elif isinstance(shape, Map):
        if not isinstance(value, dict):
            yield f"{at} is no object"
            return
        for key, inner in value.items():
            yield from mismatches(inner, shape.values, f"{at}.{key}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{at} is no list"
            return
        for index, inner in enumerate(value):
            yield from mismatches(inner, shape[0], f"{at}[{index}]")
    elif isinstance(shape, dict):
        yield from _in_object(value, shape, at)
    elif not _is_of(value, shape):
        yield f"{at} is {value!r}, not {text_of(shape)}"


def _in_object(value: Any, shape: dict[str, Shape], at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at} is no object"
        return
    named = {key.rstrip("?"): inner for key, inner in shape.items()}
    for key in sorted(value.keys() - named.keys()):
        yield f"{at}.{key} is not documented"
    for key, inner in shape.items():
        name = key.rstrip("?")
        if name in value:
            yield from mismatches(value[name], inner, f"{at}.{name}")
        elif name == key:
            yield f"{at}.{name} is missing"


def _is_of(value: Any, shape: Shape) -> bool:
    return any(
        (kind is NoneType and value is None)
        or (kind is bool and isinstance(value, bool))
        or (kind is int and isinstance(value, int) and not isinstance(value, bool))
        or (kind is float and isinstance(value, (int, float)) and not isinstance(value, bool))
        or (kind is str and isinstance(value, str))
        for kind in _kinds(shape)
    )


def _kinds(shape: Shape) -> tuple[Any, ...]:
    if shape is None:
        return (NoneType,)
    return get_args(shape) if isinstance(shape, UnionType) else (shape,)


def text_of(shape: Shape, indent: str = "") -> str:
    """The shape as a page shows it: JSON with the kinds of value in their places."""
    deeper = f"{indent}  "
    if shape is ANY:
        return "any value"
    if isinstance(shape, Either):
        return f"\n{indent}or ".join(text_of(one, indent) for one in shape.shapes)
    if isinstance(shape, Map):
        return f"{{<{shape.keys}>: {text_of(shape.values, indent)}, ...}}"
    if isinstance(shape, list):
        return f"[{text_of(shape[0], indent)}, ...]"
    if isinstance(shape, dict):
        rows = [
            f'{deeper}"{key.rstrip("?")}": {text_of(inner, deeper)}'
            f"{' (may be missing)' if key.endswith('?') else ''}"
            for key, inner in shape.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    return " or ".join(_NAMES[kind] for kind in _kinds(shape))
