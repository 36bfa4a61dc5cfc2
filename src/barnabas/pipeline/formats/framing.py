"""Confluent's framing: which schema a value was written with.

A framed value begins with a zero byte and the schema's id in 4 bytes, big-endian; a Protobuf value then has
the path of its message in the file, as zigzag varints: their number and each index, where a single 0 means
[0].
"""

from __future__ import annotations

MAGIC = 0
HEADER_BYTES = 5
INDEXES_MAX = 100


class FramingError(ValueError):
    """The value has no such begin."""


def schema_id(value: bytes) -> int:
    if len(value) < HEADER_BYTES or value[0] != MAGIC:
        raise FramingError("the value has no schema id: no zero byte and 4 bytes at its begin")
    return int.from_bytes(value[1:HEADER_BYTES], "big")


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
