"""Compaction's compiled outer loops: they process many small batches in one call.

For small batches, Python's work per batch would cost more than that per record: to read and check the
header and the CRC, to look up keys, to copy the batches that stay, to update the segment's indexes.

Source: Kafka protocol guide, record batch format v2.
"""

from __future__ import annotations

import numpy as np

from barnabas.record.columnar_kernels import Bytes, Longs, compiled, copy_bytes
from barnabas.record.key_kernels import (
    OK,
    RECORDS_AHEAD,
    note_records,
    note_rows,
    read_ahead,
    stay_whole,
)
from barnabas.record.words import Words, big_32, big_64, crc32c

HEADER_SIZE = 61
ENTRY_NUMBERS = 4
"""Numbers in one index entry of `index_run`."""


@compiled
def next_offset_of(data: Bytes, at: int) -> int:
    """The offset after the last one of the batch at `at`."""
    return big_64(data, at) + big_32(data, at + 23) + 1


@compiled
def small_plain_batch(data: Bytes, at: int, size_max: int, low: int, high: int) -> int:
    """The size of the batch at `at` where it is whole, of format 2, with a right CRC, at most `size_max`
    bytes long, has offsets within [low, high), and is neither compressed, transactional nor a control
    batch; else 0."""
    if len(data) - at < HEADER_SIZE or data[at + 16] != 2:
        return 0
    size = big_32(data, at + 8) + 12
    if size < HEADER_SIZE or size > size_max or size > len(data) - at:
        return 0
    if data[at + 22] & 0x37 or big_32(data, at + 23) < 0 or big_32(data, at + 57) < 0:
        return 0
    if big_64(data, at) < low or next_offset_of(data, at) > high:
        return 0
    if crc32c(data, at + 21, at + size) != big_32(data, at + 17) & 0xFFFFFFFF:
        return 0
    return size


@compiled
def read_batches(
    data: Bytes, at: int, size_max: int, low: int, high: int,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs, batches: Longs,
) -> int:  # fmt: skip
    """Read ahead the records of the small plain batches from `at` on, up to `RECORDS_AHEAD` records in all.

    `batches` gets two numbers per batch, its end and its record count. Returns the number of batches; 0
    where the first one has more records, or is not a valid small plain batch.
    """
    filled = found = 0
    while found < RECORDS_AHEAD:
        size = small_plain_batch(data, at, size_max, low, high)
        if size == 0:
            break
        count = big_32(data, at + 57)
        if count > RECORDS_AHEAD - filled:
            break
        _, position = read_ahead(
            data, at + HEADER_SIZE, at + size, count, big_64(data, at),
            k0, k1, slots, hashes, rows, filled,
        )  # fmt: skip
        if position != at + size:
            break
        low = next_offset_of(data, at)
        filled += count
        at += size
        batches[2 * found] = at
        batches[2 * found + 1] = count
        found += 1
    return found


@compiled
def note_run(
    data: Bytes, size_max: int, low: int, high: int,
    from_offset: int, used: int, keys_max: int, slots_max: int,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs, batches: Longs,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Put the keys of the small plain batches at the start of `data` into the table of keys.

    Stops when the table has `keys_max` keys, or where the next batch might exceed `slots_max` or is not a
    valid small plain batch. Returns (bytes processed, offset after them, keys in the table, further keys from
    an invalid batch at which it stopped).
    """
    at, end = 0, low
    while used < keys_max:
        found = read_batches(data, at, size_max, end, high, k0, k1, slots, hashes, rows, batches)
        row = 0
        for i in range(found):
            count = batches[2 * i + 1]
            if used >= keys_max or used + count > slots_max:
                return at, end, used, 0
            used += note_rows(row, count, from_offset, slots, hashes, rows)
            row += count
            end = next_offset_of(data, at)
            at = batches[2 * i]
        if found:
            continue
        size = small_plain_batch(data, at, size_max, end, high)
        if size == 0:
            break
        count = big_32(data, at + 57)
        if used + count > slots_max:
            break
        code, new = note_records(
            data, at + HEADER_SIZE, at + size, count, big_64(data, at), from_offset,
            k0, k1, slots, hashes, rows,
        )  # fmt: skip
        if code != OK:
            return at, end, used, new
        used += new
        end = next_offset_of(data, at)
        at += size
    return at, end, used, 0


@compiled
def must_be_seen(data: Bytes, at: int, behind: int, round_end: int) -> bool:
    """Whether compaction needs more of this batch than its keys: it has a delete horizon, a producer id or no
    records, or is the last one of the round."""
    return bool(
        data[at + 22] & 0x40
        or big_64(data, at + 43) >= 0
        or big_32(data, at + 57) == 0
        or behind == round_end
    )


@compiled
def long_batch_stays(
    data: Bytes, at: int, to: int, known_end: int,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs,
) -> int:  # fmt: skip
    """Whether the batch in ``data[at:to]`` stays whole, as `stay_whole` says of one record; -1 also where
    a record is malformed."""
    position, left, stays = at + HEADER_SIZE, big_32(data, at + 57), -2
    while left > 0:
        read, position = read_ahead(
            data,
            position,
            to,
            min(left, RECORDS_AHEAD),
            big_64(data, at),
            k0,
            k1,
            slots,
            hashes,
            rows,
            0,
        )
        if position < 0:
            return -1
        found = stay_whole(0, read, known_end, slots, hashes, rows)
        if stays == -2:
            stays = found
        elif stays != found:
            return -1
        left -= read
    return stays if position == to else -1


@compiled
def clean_run(
    data: Bytes, size_max: int, low: int, high: int, known_end: int, round_end: int,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs, batches: Longs,
    out: Bytes,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Copy the small plain batches at the start of `data` that stay unchanged to `out`, and skip those of
    which no record stays. Stop at the first batch of which only a part stays, or which `must_be_seen`.
    Returns (bytes read, offset after them, bytes written, records that stay)."""
    at, end, size_out, records, begin = 0, low, 0, 0, 0
    copies_more = True
    while copies_more:
        found = read_batches(data, at, size_max, end, high, k0, k1, slots, hashes, rows, batches)
        is_long = found == 0
        if is_long:  # a batch with more than RECORDS_AHEAD records, or no further valid batch
            size = small_plain_batch(data, at, size_max, end, high)
            if size == 0:
                break
            batches[0], batches[1], found = at + size, big_32(data, at + 57), 1
        row = 0
        for i in range(found):
            to, count, behind = batches[2 * i], batches[2 * i + 1], next_offset_of(data, at)
            stays = -1
            if must_be_seen(data, at, behind, round_end):
                pass
            elif is_long:
                stays = long_batch_stays(data, at, to, known_end, k0, k1, slots, hashes, rows)
            else:
                stays = stay_whole(row, count, known_end, slots, hashes, rows)
            if stays < 0:
                copies_more = False
                break
            if stays == 1:
                records += count
            else:  # copy the adjacent batches before it that stay
                copy_bytes(data, begin, out, size_out, at - begin)
                size_out += at - begin
                begin = to
            row += count
            end, at = behind, to
    copy_bytes(data, begin, out, size_out, at - begin)
    return at, end, size_out + at - begin, records


@compiled
def index_run(
    data: Bytes, position: int, interval: int,
    since_index: int, max_timestamp: int, offset_of_max: int, entries: Longs,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Index entries for the complete batches in `data`, which begin at `position` of the segment, as
    :meth:`barnabas.log.segments.segment.Segment.update_for_batch` makes them.

    `interval` is `index.interval.bytes`. `entries` gets `ENTRY_NUMBERS` per entry: last offset, position,
    largest timestamp so far, its offset. Returns (number of entries, bytes since the last one, largest
    timestamp, its offset).
    """
    at = count = 0
    while at < len(data):
        size = big_32(data, at + 8) + 12
        last = next_offset_of(data, at) - 1
        stamp = big_64(data, at + 35)
        if stamp > max_timestamp and size > HEADER_SIZE:
            max_timestamp, offset_of_max = stamp, last
        if since_index > interval:
            entry = count * ENTRY_NUMBERS
            entries[entry] = last
            entries[entry + 1] = position + at
            entries[entry + 2] = max_timestamp
            entries[entry + 3] = offset_of_max
            count += 1
            since_index = 0
        since_index += size
        at += size
    return count, since_index, max_timestamp, offset_of_max
