"""Decodes and encodes records of format v2 in arrays: the compiled inner loops.

Owns the byte format of a *record* (not of a batch), as loops over ``uint8`` arrays that numba compiles.
Without numba the same functions run interpreted, with the same results, about a hundred times slower
(``COMPILED`` says which). numba caches the machine code on disk (see
:mod:`barnabas.record.kernel_cache`), so that the loops are compiled once per installation.

``int()`` around array elements is for the interpreted case: an element is a numpy number of the array's
width, in which arithmetic would overflow. Compiled, it has no effect.

Every loop checks bounds: malformed records give an error code, never a read beyond the array. Nothing
here allocates per record.

Source: Kafka protocol guide, record format v2 (KIP-98); murmur2 as Kafka's BuiltInPartitioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from barnabas.record.kernel_cache import jitted

F = TypeVar("F", bound=Callable[..., Any])
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

try:
    import numba
except ImportError:
    COMPILED = False
else:
    COMPILED = True

OK = 0
MALFORMED = 1
KEYS = 1
VALUES = 2
LONG_MAX = 0x7FFFFFFFFFFFFFFF
MURMUR_M = 0x5BD1E995
MASK_32 = 0xFFFFFFFF


def compiled(function: F) -> F:
    """`function`, compiled where numba is installed; unchanged where it is not."""
    if not COMPILED:
        return function
    made: F = jitted(numba.njit, numba.config, function)
    return made


A = TypeVar("A", bound=npt.NDArray[Any])


def frozen(array: A) -> A:
    """`array`, made read-only. numba compiles a version per argument types, and read-only arrays are a type
    of their own. Input arrays are always frozen, so that each loop is compiled only once."""
    array.flags.writeable = False
    return array


if COMPILED:

    @compiled
    def copy_bytes(source: Bytes, start: int, target: Bytes, at: int, size: int) -> None:
        for i in range(size):
            target[at + i] = source[start + i]

else:

    def copy_bytes(source: Bytes, start: int, target: Bytes, at: int, size: int) -> None:
        target[at : at + size] = source[start : start + size]


@compiled
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """(value, next position) of the zigzag varint at `position`; next position -1 where it is malformed or
    does not end before `end`."""
    value = 0
    shift = 0
    while position < end and shift < 70:
        byte = int(data[position])
        position += 1
        if shift == 63 and byte > 1:
            return 0, -1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & LONG_MAX) ^ -(value & 1), position
        shift += 7
    return 0, -1


@compiled
def skip_headers(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """(number of headers, next position) of a record's headers; next position -1 where they are malformed."""
    count, position = read_varint(data, position, end)
    if position < 0 or count < 0 or count > end - position:
        return 0, -1
    for _ in range(count):
        size, position = read_varint(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return 0, -1
        position += size
        size, position = read_varint(data, position, end)
        if position < 0 or size < -1 or size > end - position:
            return 0, -1
        if size > 0:
            position += size
    return count, position


@compiled
def read_field(data: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """(start, size, next position) of a length-prefixed field; size -1 is null, next position -1
    malformed."""
    size, position = read_varint(data, position, end)
    if position < 0 or size < -1 or size > end - position:
        return 0, 0, -1
    return position, size, position + max(size, 0)


@compiled
def decode_records(
    data: Bytes,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_time_ms: int,
    first_offset: int,
    end_offset: int,
    row: int,
    offsets: Longs,
    timestamps_us: Longs,
    key_ends: Ints,
    key_valid: Bytes,
    key_bytes: Bytes,
    value_ends: Ints,
    value_valid: Bytes,
    value_bytes: Bytes,
    header_starts: Longs,
    header_counts: Ints,
    wanted: int,
) -> tuple[int, int]:
    """Append the records of one batch with ``first_offset <= offset < end_offset`` to columns.

    `data` is the uncompressed records section. Columns are filled from `row` on. ``*_ends`` has one element
    more than there are rows; ``*_ends[row]`` is the position in ``*_bytes`` for the next bytes, after which
    ``*_bytes`` must have room for all of `data`. `append_time_ms` replaces all timestamps unless negative.
    `wanted` has the bits `KEYS` and `VALUES` for the columns to fill; rows of others are empty. Returns
    (next row, OK or MALFORMED); `data` with fewer or more bytes than `count` records is malformed.
    """
    position = 0
    size_all = len(data)
    for _ in range(count):
        length, position = read_varint(data, position, size_all)
        if position < 0 or length < 1 or length > size_all - position:
            return row, MALFORMED
        end = position + length
        timestamp_delta, position = read_varint(data, position + 1, end)
        if position < 0:
            return row, MALFORMED
        offset_delta, position = read_varint(data, position, end)
        if position < 0:
            return row, MALFORMED
        key_at, key_size, position = read_field(data, position, end)
        if position < 0:
            return row, MALFORMED
        value_at, value_size, position = read_field(data, position, end)
        if position < 0:
            return row, MALFORMED
        headers_at = position
        headers, position = skip_headers(data, position, end)
        if position != end:
            return row, MALFORMED
        offset = base_offset + offset_delta
        if offset < first_offset or offset >= end_offset:
            continue
        offsets[row] = offset
        timestamp = append_time_ms if append_time_ms >= 0 else base_timestamp_ms + timestamp_delta
        timestamps_us[row] = timestamp * 1000
        key_valid[row] = key_size >= 0
        value_valid[row] = value_size >= 0
        key_size = max(key_size, 0) if wanted & KEYS else 0
        value_size = max(value_size, 0) if wanted & VALUES else 0
        copy_bytes(data, key_at, key_bytes, key_ends[row], key_size)
        copy_bytes(data, value_at, value_bytes, value_ends[row], value_size)
        key_ends[row + 1] = key_ends[row] + key_size
        value_ends[row + 1] = value_ends[row] + value_size
        header_starts[row] = headers_at
        header_counts[row] = headers
        row += 1
    return row, (OK if position == size_all else MALFORMED)


@compiled
def decode_headers(
    data: Bytes,
    first_row: int,
    next_row: int,
    header_starts: Longs,
    header_counts: Ints,
    item: int,
    key_ends: Ints,
    key_bytes: Bytes,
    value_ends: Ints,
    value_valid: Bytes,
    value_bytes: Bytes,
) -> int:
    """Append the headers of the rows from `first_row` to `next_row` to columns, from `item` on.

    `data` is the section from which `decode_records` decoded these rows: it has checked the bytes, so that
    they are not checked again. Returns the next item.
    """
    size_all = len(data)
    for row in range(first_row, next_row):
        _, position = read_varint(data, header_starts[row], size_all)
        for _ in range(header_counts[row]):
            at, size, position = read_field(data, position, size_all)
            copy_bytes(data, at, key_bytes, key_ends[item], size)
            key_ends[item + 1] = key_ends[item] + size
            at, size, position = read_field(data, position, size_all)
            value_valid[item] = size >= 0
            size = max(size, 0)
            copy_bytes(data, at, value_bytes, value_ends[item], size)
            value_ends[item + 1] = value_ends[item] + size
            item += 1
    return item


@compiled
def write_varint(target: Bytes, position: int, value: int) -> int:
    """Write a zigzag varint of a value within 62 bits; returns the next position."""
    number = int(value)
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        target[position] = (rest & 0x7F) | 0x80
        position += 1
        rest >>= 7
    target[position] = rest
    return position + 1


@compiled
def varint_size(value: int) -> int:
    """Bytes of a zigzag varint of a value within 62 bits."""
    number = int(value)
    rest = (number << 1) ^ (number >> 63)
    size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


@compiled
def headers_size(
    row: int, header_ends: Ints, key_ends: Ints, value_ends: Ints, value_valid: Bytes
) -> int:
    """Bytes of the encoded headers of `row`, with their count."""
    size = varint_size(header_ends[row + 1] - header_ends[row])
    for item in range(header_ends[row], header_ends[row + 1]):
        length = key_ends[item + 1] - key_ends[item]
        size += varint_size(length) + length
        length = value_ends[item + 1] - value_ends[item] if value_valid[item] else -1
        size += varint_size(length) + max(length, 0)
    return size


@compiled
def write_headers(
    target: Bytes,
    position: int,
    row: int,
    header_ends: Ints,
    key_ends: Ints,
    key_bytes: Bytes,
    value_ends: Ints,
    value_valid: Bytes,
    value_bytes: Bytes,
) -> int:
    """Write the headers of `row`; returns the next position."""
    position = write_varint(target, position, header_ends[row + 1] - header_ends[row])
    for item in range(header_ends[row], header_ends[row + 1]):
        length = key_ends[item + 1] - key_ends[item]
        position = write_varint(target, position, length)
        copy_bytes(key_bytes, key_ends[item], target, position, length)
        position += length
        length = value_ends[item + 1] - value_ends[item] if value_valid[item] else -1
        position = write_varint(target, position, length)
        if length > 0:
            copy_bytes(value_bytes, value_ends[item], target, position, length)
            position += length
    return position


@compiled
def encode_records(
    target: Bytes,
    rows: Longs,
    first: int,
    bytes_max: int,
    stamps: Longs,
    key_ends: Ints,
    key_valid: Bytes,
    key_bytes: Bytes,
    value_ends: Ints,
    value_valid: Bytes,
    value_bytes: Bytes,
    header_ends: Ints,
    header_key_ends: Ints,
    header_key_bytes: Bytes,
    header_value_ends: Ints,
    header_value_valid: Bytes,
    header_value_bytes: Bytes,
) -> tuple[int, int]:
    """Encode the rows ``rows[first:]`` as records of one batch, up to `bytes_max` bytes.

    Encodes at least one record if `target` has room for it. Timestamp deltas are those of `stamps` (ms, by
    row) to the first row's; all are 0 where `stamps` is empty. Offset deltas count from 0.
    Returns (index of the first row that was not encoded, bytes written).
    """
    position = 0
    index = first
    while index < len(rows):
        row = rows[index]
        delta = index - first
        key_size = key_ends[row + 1] - key_ends[row] if key_valid[row] else -1
        value_size = value_ends[row + 1] - value_ends[row] if value_valid[row] else -1
        later = stamps[row] - stamps[rows[first]] if len(stamps) else 0
        body = 1 + varint_size(later) + varint_size(delta)
        body += varint_size(key_size) + max(key_size, 0)
        body += varint_size(value_size) + max(value_size, 0)
        body += headers_size(
            row, header_ends, header_key_ends, header_value_ends, header_value_valid
        )
        after = position + varint_size(body) + body
        if after > len(target) or (after > bytes_max and index > first):
            break
        position = write_varint(target, position, body)
        target[position] = 0
        position = write_varint(target, position + 1, later)
        position = write_varint(target, position, delta)
        position = write_varint(target, position, key_size)
        if key_size > 0:
            copy_bytes(key_bytes, key_ends[row], target, position, key_size)
            position += key_size
        position = write_varint(target, position, value_size)
        if value_size > 0:
            copy_bytes(value_bytes, value_ends[row], target, position, value_size)
            position += value_size
        position = write_headers(
            target, position, row, header_ends, header_key_ends, header_key_bytes,
            header_value_ends, header_value_valid, header_value_bytes,
        )  # fmt: skip
        index += 1
    return index, position


@compiled
def murmur2(data: Bytes, start: int, size: int) -> int:
    """Kafka's murmur2 of ``data[start:start + size]`` as an unsigned 32-bit number."""
    h = (0x9747B28C ^ int(size)) & MASK_32
    position = start
    for _ in range(size // 4):
        k = (
            int(data[position])
            | int(data[position + 1]) << 8
            | int(data[position + 2]) << 16
            | int(data[position + 3]) << 24
        )
        k = (k * MURMUR_M) & MASK_32
        k ^= k >> 24
        k = (k * MURMUR_M) & MASK_32
        h = ((h * MURMUR_M) & MASK_32) ^ k
        position += 4
    rest = size % 4
    if rest == 3:
        h ^= int(data[position + 2]) << 16
    if rest >= 2:
        h ^= int(data[position + 1]) << 8
    if rest >= 1:
        h ^= int(data[position])
        h = (h * MURMUR_M) & MASK_32
    h ^= h >> 13
    h = (h * MURMUR_M) & MASK_32
    return h ^ (h >> 15)


@compiled
def assign_partitions(
    partitions: Ints, counts: Ints, turn: int, key_ends: Ints, key_valid: Bytes, key_bytes: Bytes
) -> None:
    """Assign a partition to every row whose ``partitions[row]`` is negative.

    A row with a key gets the partition of the key's murmur2, as with Kafka's default partitioner. Rows
    without a key get partitions round-robin, from `turn` on. ``counts[row]`` is the number of partitions of
    the row's topic (at least 1).
    """
    for row in range(len(partitions)):
        if partitions[row] >= 0:
            continue
        if key_valid[row]:
            at = key_ends[row]
            hashed = murmur2(key_bytes, at, key_ends[row + 1] - at)
            partitions[row] = (hashed & 0x7FFFFFFF) % int(counts[row])
        else:
            partitions[row] = turn % int(counts[row])
            turn += 1
