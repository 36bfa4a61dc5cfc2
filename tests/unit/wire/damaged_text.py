"""Requests with one string that is not UTF-8: one for every string field of a class and version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.wire.codec import UnsupportedFieldError, encode_bytes
from barnabas.wire.schema import Field, Message

_MARK = "not-utf8"
DAMAGED = b"h\xf6\xff\xed\xa0\x80\xe2z"
"""As long as `_MARK`: Latin-1, a byte that no UTF-8 has, a surrogate, a sequence that breaks off."""
DAMAGED_TEXT = "h\ufffd\ufffd\ufffd\ufffdz"
"""What Java makes of `DAMAGED`."""
HARMLESS = {
    "acks": 1, "max_wait_ms": 0, "session_epoch": -1,
    "resource_type": 2, "resource_type_filter": 2, "resource_pattern_type": 3, "pattern_type": 3,
    "pattern_type_filter": 3, "operation": 3, "permission_type": 3,
}  # fmt: skip
"""Values with which a request is answered, and soon: not acks=0, no unknown operation of an ACL."""


def string_places(cls: type[Message], version: int) -> list[str]:
    """The string fields of `cls` in `version`, as paths (``topics.name``)."""
    return [path for path, _ in _strings(cls, version, "")]


def _strings(cls: type[Message], version: int, above: str) -> Iterator[tuple[str, Field]]:
    for field in cls.FIELDS:
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        path = f"{above}{field.name}"
        if field.kind == "string":
            yield path, field
        elif field.struct is not None:
            yield from _strings(field.struct, version, f"{path}.")


def damaged_body(cls: type[Message], version: int, place: str) -> bytes | None:
    """The encoded message whose string at `place` is `DAMAGED`; every array has one element. None where
    the version cannot say the defaults of its other fields."""
    try:
        whole = encode_bytes(_filled(cls, version, place), version)
    except UnsupportedFieldError:
        return None
    assert whole.count(_MARK.encode()) == 1, (cls, version, place)
    return whole.replace(_MARK.encode(), DAMAGED)


def _filled(cls: type[Message], version: int, place: str) -> Message:
    message = cls()
    for field in cls.FIELDS:
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        name, _, below = place.partition(".")
        value = _value(field, version, name == field.name, below)
        if value is not None:
            setattr(message, field.name, [value] if field.array else value)
    return message


def _value(field: Field, version: int, is_on_the_way: bool, below: str) -> Any:
    if field.struct is not None:
        if field.array or is_on_the_way:
            return _filled(field.struct, version, below if is_on_the_way else "")
        return None
    if field.kind == "string":
        return _MARK if is_on_the_way else "1" if field.array else None
    if field.array:
        return {"uuid": bytes(16), "bytes": b""}.get(field.kind, 0)
    return HARMLESS.get(field.name)
