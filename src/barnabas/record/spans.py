"""The positions of the records in a batch, as plain tuples instead of objects.

For code that examines every record but keeps none: compaction (keys), and the validation of clients'
batches (keys, offsets, timestamps). Makes the same checks as decoding the records.
"""

from __future__ import annotations

from barnabas.record.batch import BatchHeader, BatchView, CorruptBatchError
from barnabas.record.compression import DECOMPRESSED_BYTES_MAX, CompressionError, decompress
from barnabas.record.decode import read_varint

Span = tuple[int, int, int, int, bytes | None, bool]
"""A record: (start and end position in its section, offset delta, timestamp delta in ms, key, whether it has
a value). A plain tuple, as there is one per record."""


def section_of(batch: BatchView, limit: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """The uncompressed records section of a batch. Raises :class:`CorruptBatchError`, also where it has
    more than `limit` bytes."""
    try:
        return memoryview(decompress(batch.header.codec, batch.payload, limit))
    except CompressionError as error:
        raise CorruptBatchError(batch.position, str(error)) from error


def spans_of(section: memoryview, header: BatchHeader) -> list[Span]:
    """The spans of all records in a section. Raises :class:`CorruptBatchError` where it contradicts the
    header."""
    # One-byte varints, the usual case, are decoded inline: a call per field would dominate this loop.
    data, spans = bytes(section), list[Span]()
    position, total, add = 0, len(section), spans.append
    try:
        for _ in range(header.record_count):
            start = position
            size, position = read_varint(data, position)
            end = position + size
            if size < 0 or end > total:
                raise ValueError(f"it claims {size} bytes")
            byte = data[position + 1]
            if byte < 0x80:
                stamp, position = byte >> 1 ^ -(byte & 1), position + 2
            else:
                stamp, position = read_varint(data, position + 1)
            byte = data[position]
            if byte < 0x80:
                delta, position = byte >> 1 ^ -(byte & 1), position + 1
            else:
                delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                length, position = byte >> 1 ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(data, position)
            key = None
            if length >= 0:
                key = data[position : position + length]
                position += length
            length, position = read_varint(data, position)
            if length > 0:
                position += length
            if position >= end or (data[position] and _end_of_headers(data, position, end) != end):
                raise ValueError("its fields do not fit its length")
            if not data[position] and position + 1 != end:
                raise ValueError("bytes follow its fields")
            add((start, end, delta, stamp, key, length >= 0))
            position = end
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(0, f"a record is malformed: {error}") from error
    if position != total:
        raise CorruptBatchError(0, f"{total - position} bytes follow the records")
    return spans


def _end_of_headers(data: bytes, position: int, end: int) -> int:
    """The position after a record's headers. Raises ``ValueError`` or ``IndexError`` where they are
    malformed."""
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise ValueError(f"it claims {count} headers")
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0 or position + size > end:
            raise ValueError("a header's key does not fit")
        size, position = read_varint(data, position + size)
        if size > end - position:
            raise ValueError("a header's value does not fit")
        position += max(size, 0)
    return position
