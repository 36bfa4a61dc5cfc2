"""The keys of whole batches against a table of last offsets, over arrays: compaction's compiled inner loops.

The table is open-addressed: a slot is 16 bytes of SipHash-2-4 of the key, under a secret of the round, and
the last offset plus one (0: the slot is free). Two keys of one hash are as likely as guessing the secret.

Records are walked with every check that :mod:`barnabas.record.spans` makes but one: whether headers' keys are
UTF-8. Whatever is not plainly sound, those included, is `SUSPECT`: the caller looks at that batch there.
Compiled code is kept on disk, see :mod:`barnabas.record.columnar_kernels`.

Source: Kafka protocol guide, record format v2; SipHash by Aumasson and Bernstein (128-bit output).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from barnabas.record.columnar_kernels import Bytes, Longs, compiled, read_varint

Words = npt.NDArray[np.uint64]

OK = 0
SUSPECT = 1
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
        word = np.uint64(0)
        for i in range(7, -1, -1):
            word = (word << _EIGHT) | np.uint64(data[position + i])
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


@compiled
def slot_of(low: np.uint64, high: np.uint64, hashes: Words, lasts: Longs) -> int:
    """Where the key of this hash stands, or would: `lasts` there is 0 then."""
    mask = len(lasts) - 1
    at = np.int64(low) & mask
    while lasts[at] != 0 and (hashes[2 * at] != low or hashes[2 * at + 1] != high):
        at = (at + 1) & mask
    return int(at)


@compiled
def put(
    data: Bytes, start: int, size: int, offset: int,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs,
) -> int:  # fmt: skip
    """`offset` is the key's last one from now on; 1 where the key is new, else 0."""
    low, high = sip_hash(data, start, size, k0, k1)
    at = slot_of(low, high, hashes, lasts)
    new = 1 if lasts[at] == 0 else 0
    hashes[2 * at] = low
    hashes[2 * at + 1] = high
    lasts[at] = offset + 1
    return new


@compiled
def last_offset(
    data: Bytes, start: int, size: int,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs,
) -> int:  # fmt: skip
    """The key's last offset; -1 where it is not in the table."""
    low, high = sip_hash(data, start, size, k0, k1)
    return int(lasts[slot_of(low, high, hashes, lasts)]) - 1


@compiled
def rehash(hashes: Words, lasts: Longs, new_hashes: Words, new_lasts: Longs) -> None:
    """Put all slots into a larger, empty table."""
    for at in range(len(lasts)):
        if lasts[at] != 0:
            to = slot_of(hashes[2 * at], hashes[2 * at + 1], new_hashes, new_lasts)
            new_hashes[2 * to] = hashes[2 * at]
            new_hashes[2 * to + 1] = hashes[2 * at + 1]
            new_lasts[to] = lasts[at]


@compiled
def skip_plain_headers(data: Bytes, position: int, end: int) -> int:
    """The position behind a record's headers; -1 where they are not plainly sound."""
    count, position = read_varint(data, position, end)
    if position < 0 or count < 0 or count > end - position:
        return -1
    for _ in range(count):
        size, position = read_varint(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        for i in range(position, position + size):
            if data[i] >= 0x80:
                return -1
        size, position = read_varint(data, position + size, end)
        if position < 0 or size < -1 or size > end - position:
            return -1
        position += max(size, 0)
    return position


@compiled
def read_record(data: Bytes, position: int, size_all: int) -> tuple[int, int, int, int, int, int]:
    """(end, timestamp delta, offset delta, where the key begins, its size or -1, 1 where there is a
    value) of the record at `position`; end -1 where it is not plainly sound."""
    bad = (-1, 0, 0, 0, 0, 0)
    length, position = read_varint(data, position, size_all)
    if position < 0 or length < 1 or length > size_all - position:
        return bad
    end = position + length
    stamp, position = read_varint(data, position + 1, end)
    if position < 0:
        return bad
    delta, position = read_varint(data, position, end)
    if position < 0 or delta < 0 or delta > 0x7FFFFFFF:
        return bad
    key_size, key_at = read_varint(data, position, end)
    if key_at < 0 or key_size < -1 or key_size > end - key_at:
        return bad
    value_size, position = read_varint(data, key_at + max(key_size, 0), end)
    if position < 0 or value_size < -1 or value_size > end - position:
        return bad
    if skip_plain_headers(data, position + max(value_size, 0), end) != end:
        return bad
    return end, stamp, delta, key_at, key_size, 0 if value_size < 0 else 1


@compiled
def note_records(
    data: Bytes, count: int, base_offset: int, from_offset: int,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs,
) -> tuple[int, int]:  # fmt: skip
    """Put the keys of `count` records at or behind `from_offset` into the table, which has room for
    all. (OK or SUSPECT, how many keys are new)."""
    position = used = 0
    for _ in range(count):
        end, _stamp, delta, key_at, key_size, _value = read_record(data, position, len(data))
        if end < 0:
            return SUSPECT, used
        if key_size >= 0 and base_offset + delta >= from_offset:
            used += put(data, key_at, key_size, base_offset + delta, k0, k1, hashes, lasts)
        position = end
    return (OK if position == len(data) else SUSPECT), used


@compiled
def keep_records(
    data: Bytes, count: int, base_offset: int, known_end: int, keep_deletes: bool,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs, out: Bytes, ends: Longs,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Write the records that stay to `out`: those at or behind `known_end`, and the last of their key, a
    tombstone only where `keep_deletes`. `ends` gets, for each record, where it ends in `data`, negated where
    it goes. (OK or SUSPECT, how many stay, their bytes, 1 where all of them have values, their largest
    timestamp delta)."""
    position = kept = size = 0
    all_values, latest = 1, -0x7FFFFFFFFFFFFFFF
    for i in range(count):
        end, stamp, delta, key_at, key_size, value = read_record(data, position, len(data))
        if end < 0:
            return SUSPECT, 0, 0, 0, 0
        offset = base_offset + delta
        stays = offset >= known_end
        if not stays and key_size >= 0 and (value == 1 or keep_deletes):
            stays = offset >= last_offset(data, key_at, key_size, k0, k1, hashes, lasts)
        ends[i] = end if stays else -end
        if stays:
            for j in range(end - position):
                out[size + j] = data[position + j]
            size += end - position
            kept += 1
            all_values &= value
            latest = max(latest, stamp)
        position = end
    return (OK if position == len(data) else SUSPECT), kept, size, all_values, latest


# -- runs of small plain batches -------------------------------------------------------------------
#
# Where batches are small, what is done once per batch outside of here costs more than their records.

_TABLE_BYTES = 256
_CASTAGNOLI = 0x82F63B78


def _crc_tables() -> Longs:
    """Eight tables of CRC-32C, one for each byte of a word."""
    tables = np.zeros((8, _TABLE_BYTES), np.int64)
    for byte in range(_TABLE_BYTES):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        tables[0, byte] = value
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_CRC = _crc_tables()


@compiled
def crc32c(data: Bytes, start: int, end: int) -> int:
    """CRC-32C of ``data[start:end]``: for short stretches."""
    crc, at = 0xFFFFFFFF, start
    while end - at >= _EIGHT_BYTES:
        crc ^= (
            int(data[at])
            | int(data[at + 1]) << 8
            | int(data[at + 2]) << 16
            | int(data[at + 3]) << 24
        )
        crc = (
            _CRC[7, crc & 0xFF]
            ^ _CRC[6, crc >> 8 & 0xFF]
            ^ _CRC[5, crc >> 16 & 0xFF]
            ^ _CRC[4, crc >> 24]
            ^ _CRC[3, data[at + 4]]
            ^ _CRC[2, data[at + 5]]
            ^ _CRC[1, data[at + 6]]
            ^ _CRC[0, data[at + 7]]
        )
        at += _EIGHT_BYTES
    while at < end:
        crc = crc >> 8 ^ _CRC[0, (crc ^ int(data[at])) & 0xFF]
        at += 1
    return int(crc ^ 0xFFFFFFFF)


@compiled
def big_endian(data: Bytes, at: int, size: int) -> int:
    """A signed number of `size` bytes."""
    value = int(data[at])
    if value >= 0x80:
        value -= 0x100
    for i in range(1, size):
        value = value << 8 | int(data[at + i])
    return value


@compiled
def next_offset_of(data: Bytes, at: int) -> int:
    """Behind the batch at `at`."""
    return big_endian(data, at, 8) + big_endian(data, at + 23, 4) + 1


@compiled
def small_plain_batch(data: Bytes, at: int, size_max: int, low: int, high: int) -> int:
    """The size of the batch at `at` where it is whole, of format 2, with a right CRC, at most `size_max`
    bytes long, has offsets within [low, high), and is neither compressed, transactional nor a control
    batch; else 0."""
    if len(data) - at < 61 or data[at + 16] != 2:
        return 0
    size = big_endian(data, at + 8, 4) + 12
    if size < 61 or size > size_max or size > len(data) - at:
        return 0
    if data[at + 22] & 0x37 or big_endian(data, at + 23, 4) < 0 or big_endian(data, at + 57, 4) < 0:
        return 0
    if big_endian(data, at, 8) < low or next_offset_of(data, at) > high:
        return 0
    if crc32c(data, at + 21, at + size) != big_endian(data, at + 17, 4) & 0xFFFFFFFF:
        return 0
    return size


@compiled
def note_run(
    data: Bytes, size_max: int, low: int, high: int,
    from_offset: int, used: int, keys_max: int, slots_max: int,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Put the keys of the small plain batches at the front of `data` into the table, as long as it holds
    fewer than `keys_max` keys and has room (`slots_max`). (Their bytes, the offset behind them, keys in the
    table, and how many more a batch left there that is not plainly sound)."""
    at, end = 0, low
    while used < keys_max:
        size = small_plain_batch(data, at, size_max, end, high)
        if size == 0:
            break
        count = big_endian(data, at + 57, 4)
        if used + count > slots_max:
            break
        code, new = note_records(
            data[at + 61 : at + size], count, big_endian(data, at, 8), from_offset,
            k0, k1, hashes, lasts,
        )  # fmt: skip
        if code != OK:
            return at, end, used, new
        used += new
        end = next_offset_of(data, at)
        at += size
    return at, end, used, 0


@compiled
def stay_whole(
    data: Bytes, count: int, base_offset: int, known_end: int,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs,
) -> int:  # fmt: skip
    """1 where all records of a batch stay and have values, 0 where none stays, -1 for anything else."""
    position = kept = values = 0
    for _ in range(count):
        end, _stamp, delta, key_at, key_size, value = read_record(data, position, len(data))
        if end < 0:
            return -1
        offset = base_offset + delta
        if offset >= known_end or (
            key_size >= 0 and offset >= last_offset(data, key_at, key_size, k0, k1, hashes, lasts)
        ):
            kept += 1
            values += value
        position = end
    if position != len(data):
        return -1
    if kept == 0:
        return 0
    return 1 if kept == count and values == count else -1


@compiled
def clean_run(
    data: Bytes, size_max: int, low: int, high: int, known_end: int, round_end: int,
    k0: np.uint64, k1: np.uint64, hashes: Words, lasts: Longs, out: Bytes,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Copy to `out` those of the small plain batches at the front of `data` that stay as they are, and pass
    over those of which nothing stays; end at one that has to be written anew, is of a producer with an id,
    has a delete horizon, or ends the round. (Bytes read, the offset behind them, bytes written, records that
    stay)."""
    at, end, size_out, records = 0, low, 0, 0
    while True:
        size = small_plain_batch(data, at, size_max, end, high)
        if size == 0 or data[at + 22] & 0x40 or big_endian(data, at + 43, 8) >= 0:
            break
        count, behind = big_endian(data, at + 57, 4), next_offset_of(data, at)
        if count == 0 or behind == round_end:
            break
        stays = stay_whole(
            data[at + 61 : at + size], count, big_endian(data, at, 8), known_end,
            k0, k1, hashes, lasts,
        )  # fmt: skip
        if stays < 0:
            break
        if stays == 1:
            for i in range(size):
                out[size_out + i] = data[at + i]
            size_out += size
            records += count
        end = behind
        at += size
    return at, end, size_out, records
