"""Confluent's framing: which schema a value was written with.

A framed value begins with a zero byte and the schema's id in 4 bytes, big-endian; a Protobuf value then has
the path of its message in the file, as zigzag varints: their number and each index, where a single 0 means
[0].
"""

from __future__ import annotations

from collections.abc import Sequence

MAGIC = 0
HEADER_BYTES = 5
INDEXES_MAX = 100


class FramingError(ValueError):
    """The value has no such begin."""


def schema_id(value: bytes) -> int:
    if len(value) < HEADER_BYTES or value[0] != MAGIC:
        raise FramingError("the value has no schema id: no zero byte and 4 bytes at its begin")
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def framed(number: int, path: Sequence[int] | None = None) -> bytes:
    """What goes before a value of that schema; `path` is that of a Protobuf message."""
    begin = bytes([MAGIC]) + number.to_bytes(4, "big")
    if path is None:
        return begin
    if tuple(path) == (0,):
        return begin + b"\0"
    return begin + b"".join(_zigzagged(each) for each in (len(path), *path))


def _zigzagged(number: int) -> bytes:
    """Of a number that is not negative."""
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(found + bytes([left]))


def message_path(value: bytes) -> tuple[tuple[int, ...], int]:
    """Indexes from the file down to the message, and where the message begins."""
    count, at = _zigzag(value, HEADER_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise FramingError(f"the value names its message by {count} indexes")
    path = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        path.append(index)
    return tuple(path), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        if at >= len(value) or shift > 28:
            raise FramingError("the value ends in its message indexes")
        byte = value[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
