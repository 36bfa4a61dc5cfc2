"""Decodes runs of small plain batches into columns, in one compiled call.

For batches of one or two records, Python's work per batch costs far more than the decoding of the records.
This module is imported only when such a run is found, as loading machine code takes time and memory.

Source: Kafka protocol guide, record batch format v2.
"""

from __future__ import annotations

from barnabas.record.batch import HEADER_SIZE
from barnabas.record.batch_kernels import small_plain_batch
from barnabas.record.columnar_kernels import (
    KEYS,
    LONG_MAX,
    OK,
    VALUES,
    Bytes,
    Ints,
    Longs,
    compiled,
    decode_records,
)
from barnabas.record.words import big_32, big_64


@compiled
def decode_small_batches(  # noqa: PLR0913 - compiled: it takes arrays
    data: Bytes, at: int, size_max: int, first_offset: int, end_offset: int,
    offsets: Longs, timestamps_us: Longs, append_time: Bytes,
    key_ends: Ints, key_valid: Bytes, key_bytes: Bytes,
    value_ends: Ints, value_valid: Bytes, value_bytes: Bytes,
    header_starts: Longs, header_counts: Ints, wanted: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Append the records of the small plain batches from position `at` on to columns, as `decode_records`
    does.

    Stops at the first batch that does not fit the columns, is not a valid small plain batch of at most
    `size_max` bytes, or begins at `end_offset` or later. Returns (position of that batch, rows, OK or
    MALFORMED). `append_time` gets 1 for rows whose timestamp is the broker's, else 0.
    """
    row = 0
    while True:
        size = small_plain_batch(data, at, size_max, 0, LONG_MAX)
        if size == 0 or big_64(data, at) >= end_offset:
            return at, row, OK
        count = big_32(data, at + 57)
        if (
            count * 7 > size - HEADER_SIZE
            or row + count > len(offsets)
            or (wanted & KEYS and key_ends[row] + size > len(key_bytes))
            or (wanted & VALUES and value_ends[row] + size > len(value_bytes))
        ):
            return at, row, OK
        by_broker = data[at + 22] & 8  # attributes: the timestamp is that of the append
        next_row, status = decode_records(
            data[at + HEADER_SIZE : at + size], count, big_64(data, at), big_64(data, at + 27),
            big_64(data, at + 35) if by_broker else -1, first_offset, end_offset, row,
            offsets, timestamps_us, key_ends, key_valid, key_bytes,
            value_ends, value_valid, value_bytes, header_starts, header_counts, wanted,
        )  # fmt: skip
        if status != OK:
            return at, row, status
        for index in range(row, next_row):
            append_time[index] = 1 if by_broker else 0
        row = next_row
        at += size
