"""Decodes the records of a batch to objects, for coordinators, tools and compaction; not for produce or
fetch.

The record count in the header is checked against the bytes: a wrong count raises
:class:`CorruptBatchError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.record.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchView,
    CorruptBatchError,
    iterate,
)
from barnabas.record.compression import DECOMPRESSED_BYTES_MAX, CompressionError, decompress
from barnabas.types import Buffer, new_tuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (ms)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


NULL = 1
"""The encoded size of a null key or value: the varint of -1."""
_ZIGZAG = tuple(byte >> 1 ^ -(byte & 1) for byte in range(0x80))
"""The value of each one-byte varint, by its byte. Most numbers in records take one byte."""


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """(value, next position) of the zigzag varint of at most 10 bytes at `position`. Raises ``ValueError`` or
    ``IndexError`` where it is malformed."""
    byte = data[position]
    if byte < 0x80:
        return _ZIGZAG[byte], position + 1
    value, position, shift = byte & 0x7F, position + 1, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a varint has more than 10 bytes")


def records_of(
    batch: BatchView, limit: int = DECOMPRESSED_BYTES_MAX, *, start: int | None = None
) -> Iterator[Record]:
    """The records of one batch from offset `start` on. `limit` bounds their uncompressed bytes. Raises
    :class:`CorruptBatchError`."""
    header = batch.header
    try:
        codec = header.attributes & CODEC_MASK
        payload = batch.data[HEADER_SIZE:]
        data = bytes(decompress(codec, payload, limit) if codec else payload)
    except CompressionError as error:
        raise CorruptBatchError(batch.position, str(error)) from error
    position, first_offset = 0, header.base_offset
    base, fixed = header.base_timestamp, None
    if header.attributes & LOG_APPEND_TIME:
        fixed = header.max_timestamp
    for _ in range(header.record_count):
        try:
            delta, stamp, key, value, headers, position = _read_record(data, position)
        except (IndexError, ValueError) as error:
            raise CorruptBatchError(batch.position, f"a record is malformed: {error}") from error
        offset = first_offset + delta
        if start is None or offset >= start:
            timestamp = base + stamp if fixed is None else fixed
            yield new_tuple(Record, (offset, timestamp, key, value, headers))
    if position != len(data):
        raise CorruptBatchError(batch.position, f"{len(data) - position} bytes follow the records")


def records_in(run: Buffer) -> Iterator[Record]:
    """The records of all complete batches of a run, without control batches. Raises
    :class:`CorruptBatchError`."""
    for batch in iterate(run):
        if not batch.header.attributes & CONTROL:
            yield from records_of(batch)


def _read_record(
    data: bytes, position: int
) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """(offset delta, timestamp delta in ms, key, value, headers, next position) of the record at
    `position`."""
    # One-byte varints are decoded inline, as this is called once per record.
    byte = data[position]
    if byte < 0x80:
        size, position = _ZIGZAG[byte], position + 1
    else:
        size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise ValueError(f"it claims {size} bytes")
    byte = data[position + 1]  # after the attributes
    if byte < 0x80:
        stamp, position = _ZIGZAG[byte], position + 2
    else:
        stamp, position = read_varint(data, position + 1)
    byte = data[position]
    if byte < 0x80:
        delta, position = _ZIGZAG[byte], position + 1
    else:
        delta, position = read_varint(data, position)
    if data[position] == NULL:
        key, position = None, position + 1
    else:
        key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    headers: Headers = ()
    if data[position]:
        headers, position = _read_headers(data, position, end)
    else:
        position += 1
    if position != end:
        raise ValueError(f"it has {end - position} bytes too many")
    return delta, stamp, key, value, headers, end


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        size, position = _ZIGZAG[byte], position + 1
    else:
        size, position = read_varint(data, position)
    if size < 0:
        return None, position
    stop = position + size
    if stop > end:
        raise ValueError(f"a field claims {size} bytes")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count == 0:
        return (), position
    if count < 0 or count > end - position:
        raise ValueError(f"it claims {count} headers")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise ValueError("a header's key is null")
        value, position = _read_bytes(data, position, end)
        # Clients may write any bytes; those that are not UTF-8 are replaced, as in Java.
        headers.append((key.decode(errors="replace"), value))
    return tuple(headers), position
