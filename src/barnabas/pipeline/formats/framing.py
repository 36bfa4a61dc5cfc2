"""Confluent's framing: which schema a value was written with.

A framed value begins with a zero byte and the schema's id in 4 bytes, big-endian; a Protobuf value then has
the path of its message in the file, as zigzag varints: their number and each index, where a single 0 means
[0].
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.record.builder import write_varint
from barnabas.record.decode import read_varint

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
    """The bytes before a value of that schema; `path` is that of a Protobuf message."""
    begin = bytes([MAGIC]) + number.to_bytes(4, "big")
    if path is None:
        return begin
    if tuple(path) == (0,):
        return begin + b"\0"
    indexes = bytearray()
    for index in (len(path), *path):
        write_varint(index, indexes)
    return begin + indexes


def message_path(value: bytes) -> tuple[tuple[int, ...], int]:
    """Indexes from the file down to the message, and where the message begins."""
    count, at = _index(value, HEADER_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise FramingError(f"the value names its message by {count} indexes")
    path = []
    for _ in range(count):
        index, at = _index(value, at)
        path.append(index)
    return tuple(path), at


def _index(value: bytes, at: int) -> tuple[int, int]:
    """A number and the position behind it."""
    try:
        return read_varint(value, at)
    except (IndexError, ValueError):
        raise FramingError("the value ends in its message indexes") from None
