"""Compaction's compiled inner loops: the table of each key's last offset, and records checked against it.

The table is an open-addressed hash table. A slot has four words: two for the 16 bytes of the key's
SipHash-2-4 with a secret of the round, one for the last offset plus one (0: the slot is free), and one
unused, so that a slot lies in one cache line. Two keys collide as rarely as a client guesses the secret.

Records get the same checks as in :mod:`barnabas.record.spans`. The result of a malformed batch is
`NOT_OK`; the caller then reads the batch by that module, which raises the exact error. Machine code is
cached on disk, see :mod:`barnabas.record.columnar_kernels`.

Source: Kafka protocol guide, record format v2; SipHash by Aumasson and Bernstein (128-bit output).
"""

from __future__ import annotations

import numpy as np

from barnabas.record.columnar_kernels import Bytes, Longs, compiled, copy_bytes, read_varint
from barnabas.record.words import Words, little_64, prefetch

OK = 0
NOT_OK = 1
SLOT_WORDS = 4
RECORDS_AHEAD = 64
"""Records that are decoded before their keys are looked up, so that the slots are loaded into the processor's
cache meanwhile: to load a slot takes longer than to decode a record."""
ROW_NUMBERS = 4
"""Numbers of a record that was read ahead: offset, end, timestamp delta, flags (`HAS_KEY`, `HAS_VALUE`)."""
HAS_KEY, HAS_VALUE = 1, 2
_EIGHT_BYTES = 8
_C0 = np.uint64(0x736F6D6570736575)
_C1 = np.uint64(0x646F72616E646F6D)
_C2 = np.uint64(0x6C7967656E657261)
_C3 = np.uint64(0x7465646279746573)
_EE, _DD, _FF = np.uint64(0xEE), np.uint64(0xDD), np.uint64(0xFF)
_S13, _S16, _S17 = np.uint64(13), np.uint64(16), np.uint64(17)
_S21, _S32, _S51 = np.uint64(21), np.uint64(32), np.uint64(51)
_S43, _S47, _S48, _S56 = np.uint64(43), np.uint64(47), np.uint64(48), np.uint64(56)
_EIGHT = np.uint64(8)
_FREE = np.uint64(0)


@compiled
def sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 = v0 + v1
    v1 = ((v1 << _S13) | (v1 >> _S51)) ^ v0
    v0 = (v0 << _S32) | (v0 >> _S32)
    v2 = v2 + v3
    v3 = ((v3 << _S16) | (v3 >> _S48)) ^ v2
    v0 = v0 + v3
    v3 = ((v3 << _S21) | (v3 >> _S43)) ^ v0
    v2 = v2 + v1
    v1 = ((v1 << _S17) | (v1 >> _S47)) ^ v2
    v2 = (v2 << _S32) | (v2 >> _S32)
    return v0, v1, v2, v3


@compiled
def sip_hash(
    data: Bytes, start: int, size: int, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """SipHash-2-4 with 128 bits of output of ``data[start:start + size]``."""
    v0, v1, v2, v3 = _C0 ^ k0, _C1 ^ k1 ^ _EE, _C2 ^ k0, _C3 ^ k1
    position = start
    for _ in range(size // _EIGHT_BYTES):
        word = little_64(data, position)
        position += _EIGHT_BYTES
        v3 ^= word
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= word
    word = np.uint64(0)
    for i in range(size % _EIGHT_BYTES - 1, -1, -1):
        word = (word << _EIGHT) | np.uint64(data[position + i])
    word |= (np.uint64(size) & _FF) << _S56
    v3 ^= word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= _EE
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _DD
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


# -- the table --------------------------------------------------------------------------------------


@compiled
def slot_of(low: np.uint64, high: np.uint64, slots: Words) -> int:
    """Position of the slot of this hash; of the free slot for it where it is not in the table."""
    mask = len(slots) - 1
    at = np.int64(low) * SLOT_WORDS & mask
    while slots[at + 2] != _FREE and (slots[at] != low or slots[at + 1] != high):
        at = (at + SLOT_WORDS) & mask
    return int(at)


@compiled
def put(low: np.uint64, high: np.uint64, offset: int, slots: Words) -> int:
    """Set the last offset of the key with this hash. Returns 1 where the key is new, else 0."""
    at = slot_of(low, high, slots)
    new = 1 if slots[at + 2] == _FREE else 0
    slots[at] = low
    slots[at + 1] = high
    slots[at + 2] = np.uint64(offset + 1)
    return new


@compiled
def put_key(data: Bytes, offset: int, k0: np.uint64, k1: np.uint64, slots: Words) -> int:
    """Put the key `data`, as `put` does by hash."""
    low, high = sip_hash(data, 0, len(data), k0, k1)
    return put(low, high, offset, slots)


@compiled
def last_offset(low: np.uint64, high: np.uint64, slots: Words) -> int:
    """The last offset of the key with this hash; -1 where it is not in the table."""
    return int(np.int64(slots[slot_of(low, high, slots) + 2])) - 1


@compiled
def last_offset_of_key(data: Bytes, k0: np.uint64, k1: np.uint64, slots: Words) -> int:
    """The last offset of the key `data`, as `last_offset` finds it by hash."""
    low, high = sip_hash(data, 0, len(data), k0, k1)
    return last_offset(low, high, slots)


@compiled
def rehash(slots: Words, new_slots: Words) -> None:
    """Put all slots into a larger, empty table."""
    for at in range(0, len(slots), SLOT_WORDS):
        if slots[at + 2] != _FREE:
            to = slot_of(slots[at], slots[at + 1], new_slots)
            for i in range(SLOT_WORDS):
                new_slots[to + i] = slots[at + i]


# -- records ----------------------------------------------------------------------------------------


@compiled
def read_number(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a varint as `read_varint` does, but faster for numbers of one byte."""
    if position < end and data[position] < 0x80:
        byte = int(data[position])
        return byte >> 1 ^ -(byte & 1), position + 1
    return read_varint(data, position, end)


@compiled
def skip_plain_headers(data: Bytes, position: int, end: int) -> int:
    """The position after a record's headers; -1 where they are malformed."""
    count, position = read_number(data, position, end)
    if position < 0 or count < 0 or count > end - position:
        return -1
    for _ in range(count):
        size, position = read_number(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        size, position = read_number(data, position + size, end)
        if position < 0 or size < -1 or size > end - position:
            return -1
        position += max(size, 0)
    return position


@compiled
def read_record(data: Bytes, position: int, size_all: int) -> tuple[int, int, int, int, int, int]:
    """(end, timestamp delta, offset delta, position of the key, its size or -1, 1 where it has a value else
    0) of the record at `position`; end -1 where it is malformed."""
    bad = (-1, 0, 0, 0, 0, 0)
    length, position = read_number(data, position, size_all)
    if position < 0 or length < 1 or length > size_all - position:
        return bad
    end = position + length
    stamp, position = read_number(data, position + 1, end)
    if position < 0:
        return bad
    delta, position = read_number(data, position, end)
    if position < 0 or delta < 0 or delta > 0x7FFFFFFF:
        return bad
    key_size, key_at = read_number(data, position, end)
    if key_at < 0 or key_size < -1 or key_size > end - key_at:
        return bad
    value_size, position = read_number(data, key_at + max(key_size, 0), end)
    if position < 0 or value_size < -1 or value_size > end - position:
        return bad
    if skip_plain_headers(data, position + max(value_size, 0), end) != end:
        return bad
    return end, stamp, delta, key_at, key_size, 0 if value_size < 0 else 1


@compiled
def read_ahead(
    data: Bytes, position: int, to: int, count: int, base_offset: int,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs, filled: int,
) -> tuple[int, int]:  # fmt: skip
    """Decode up to `count` records of ``data[position:to]`` into `rows`, and the hashes of their keys into
    `hashes`, from index `filled` on, and prefetch their slots. Returns (number of records, position after
    them; -1 where the next record is malformed)."""
    mask = len(slots) - 1
    for i in range(count):
        end, stamp, delta, key_at, key_size, value = read_record(data, position, to)
        if end < 0:
            return i, -1
        row = (filled + i) * ROW_NUMBERS
        flags = HAS_VALUE if value else 0
        if key_size >= 0:
            low, high = sip_hash(data, key_at, key_size, k0, k1)
            prefetch(slots, int(np.int64(low)) * SLOT_WORDS & mask)
            hashes[2 * (filled + i)] = low
            hashes[2 * (filled + i) + 1] = high
            flags |= HAS_KEY
        rows[row] = base_offset + delta
        rows[row + 1] = end
        rows[row + 2] = stamp
        rows[row + 3] = flags
        position = end
    return count, position


@compiled
def note_rows(
    first: int, count: int, from_offset: int, slots: Words, hashes: Words, rows: Longs
) -> int:
    """Put the keys of the records that were read ahead, with offsets from `from_offset` on, into the table.
    Returns how many keys are new."""
    used = 0
    for i in range(first, first + count):
        offset = rows[i * ROW_NUMBERS]
        if rows[i * ROW_NUMBERS + 3] & HAS_KEY and offset >= from_offset:
            used += put(hashes[2 * i], hashes[2 * i + 1], offset, slots)
    return used


@compiled
def is_last(i: int, known_end: int, slots: Words, hashes: Words, rows: Longs) -> bool:
    """Whether a record that was read ahead is the last one of its key, or has an offset from `known_end`
    on, of which the table does not know."""
    offset = rows[i * ROW_NUMBERS]
    if offset >= known_end:
        return True
    if not rows[i * ROW_NUMBERS + 3] & HAS_KEY:
        return False
    return bool(offset >= last_offset(hashes[2 * i], hashes[2 * i + 1], slots))


@compiled
def note_records(
    data: Bytes, position: int, to: int, count: int, base_offset: int, from_offset: int,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs,
) -> tuple[int, int]:  # fmt: skip
    """Put the keys of the `count` records in ``data[position:to]`` with offsets from `from_offset` on into
    the table, which must have room for all. Returns (OK or NOT_OK, number of new keys)."""
    used = 0
    while count > 0:
        read, position = read_ahead(
            data,
            position,
            to,
            min(count, RECORDS_AHEAD),
            base_offset,
            k0,
            k1,
            slots,
            hashes,
            rows,
            0,
        )
        used += note_rows(0, read, from_offset, slots, hashes, rows)
        if position < 0:
            return NOT_OK, used
        count -= read
    return (OK if position == to else NOT_OK), used


@compiled
def keep_records(
    data: Bytes, count: int, base_offset: int, known_end: int, keep_deletes: bool,
    k0: np.uint64, k1: np.uint64, slots: Words, hashes: Words, rows: Longs, out: Bytes, ends: Longs,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Copy the records that stay to `out`: those with offsets from `known_end` on, and the last one of each
    key, tombstones only with `keep_deletes`. `ends` gets the end of each record in `data`, negative where
    the record is removed. Returns (OK or NOT_OK, number of records that stay, their bytes, 1 where all of
    them have values else 0, their largest timestamp delta)."""
    position = kept = size = begin = start = done = 0
    all_values, latest = 1, -0x7FFFFFFFFFFFFFFF
    while done < count:
        read, position = read_ahead(
            data, position, len(data), min(count - done, RECORDS_AHEAD), base_offset,
            k0, k1, slots, hashes, rows, 0,
        )  # fmt: skip
        if position < 0:
            return NOT_OK, 0, 0, 0, 0
        for i in range(read):
            end, value = rows[i * ROW_NUMBERS + 1], rows[i * ROW_NUMBERS + 3] & HAS_VALUE
            stays = is_last(i, known_end, slots, hashes, rows)
            if stays and not value and not keep_deletes:
                stays = rows[i * ROW_NUMBERS] >= known_end
            ends[done + i] = end if stays else -end
            if stays:
                kept += 1
                all_values &= 1 if value else 0
                latest = max(latest, rows[i * ROW_NUMBERS + 2])
            else:  # copy the adjacent records before it that stay
                copy_bytes(data, begin, out, size, start - begin)
                size += start - begin
                begin = end
            start = end
        done += read
    copy_bytes(data, begin, out, size, start - begin)
    size += start - begin
    return (OK if position == len(data) else NOT_OK), kept, size, all_values, latest


@compiled
def stay_whole(
    first: int, count: int, known_end: int, slots: Words, hashes: Words, rows: Longs
) -> int:
    """1 where all records that were read ahead stay and have values, 0 where none stays, else -1: the batch
    must be processed record by record."""
    kept = values = 0
    for i in range(first, first + count):
        if is_last(i, known_end, slots, hashes, rows):
            kept += 1
            if rows[i * ROW_NUMBERS + 3] & HAS_VALUE:
                values += 1
    if kept == 0:
        return 0
    return 1 if kept == count and values == count else -1
