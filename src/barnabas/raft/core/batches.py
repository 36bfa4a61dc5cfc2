"""Record batches of the quorum: builds data and control batches, reads runs of batches.

A value is a record without key, headers and timestamp. A batch commits as a whole. Of a fetched run only
the batch headers are read; of control batches also the records, which name the leader and the voters.
Source: KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from crc32c import crc32c

from barnabas.raft.state_machine import CommittedBatch
from barnabas.record import builder
from barnabas.record.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    CorruptBatchError,
)
from barnabas.record.builder import ControlType, write_varint
from barnabas.record.compression import CompressionError, decompress
from barnabas.types import Buffer, new_tuple
from barnabas.wire import codec
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.wire.messages.leader_change_message import LeaderChangeMessage
from barnabas.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from barnabas.wire.messages.voters_record import VotersRecord
from barnabas.wire.schema import Message

ControlRecord = tuple[int, Message]
"""A type of :class:`ControlType` and its message."""

CONTROL_CLASSES: dict[int, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


class BatchRun(NamedTuple):
    """The header of one batch of a run; `position` and `size` in bytes."""

    base_offset: int
    end_offset: int
    epoch: int
    is_control: bool
    position: int
    size: int


def data_batch(values: Sequence[Buffer], base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """Encode one batch of at least one value."""
    parts: list[Buffer] = [bytes(HEADER_SIZE)]
    add, heads, count = parts.extend, _heads, len(values)
    for delta, value in zip(_offset_deltas(count), values, strict=True):
        key = len(value) << 3 | len(delta)
        head = heads.get(key) or _new_head(key)
        add((head[0], delta, head[1], value, b"\x00"))  # no headers
    batch = bytearray().join(parts)
    length = len(batch) - LENGTH_PREFIX
    HEADER.pack_into(
        batch, 0, base_offset, length, epoch, MAGIC, 0,
        0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count,
    )  # fmt: skip
    batch[CRC_AT:CRC_FROM] = crc32c(memoryview(batch)[CRC_FROM:]).to_bytes(4, "big")
    return bytes(batch)


KNOWN_MAX = 16_384
"""Entries of each of the two caches below: encoded heads of records, and encoded offset deltas."""
_heads: dict[int, tuple[bytes, bytes]] = {}
_deltas: list[bytes] = []


def _new_head(key: int) -> tuple[bytes, bytes]:
    """Encode a record's bytes before and after its offset delta. `key`: the value's size in bytes, shifted
    left by 3, and the size of the encoded delta."""
    size, delta_size = key >> 3, key & 7
    behind = b"\x01" + _zigzag(size)  # no key
    before = (
        _zigzag(2 + delta_size + len(behind) + size + 1) + b"\x00\x00"
    )  # attributes, timestamp delta
    if len(_heads) >= KNOWN_MAX:
        _heads.clear()
    _heads[key] = before, behind
    return before, behind


def _offset_deltas(count: int) -> Iterable[bytes]:
    """The offset deltas 0 to `count` - 1, encoded as zigzag varints."""
    known = len(_deltas)
    if known < min(count, KNOWN_MAX):
        # In bulk: `_zigzag` would take ten milliseconds for ten thousand deltas.
        more = range(known, min(max(count, 2 * known), KNOWN_MAX))
        _deltas.extend([bytes((d << 1,)) for d in more if d < 64])
        _deltas.extend([bytes((d << 1 & 127 | 128, d >> 6)) for d in more if 64 <= d < 8192])
        _deltas.extend(
            [bytes((d << 1 & 127 | 128, d >> 6 & 127 | 128, d >> 13)) for d in more if d >= 8192]
        )
    if count <= KNOWN_MAX:
        return islice(_deltas, count)
    return chain(_deltas, map(_zigzag, range(KNOWN_MAX, count)))


def _zigzag(value: int) -> bytes:
    encoded = bytearray()
    write_varint(value, encoded)
    return bytes(encoded)


def control_batch(
    records: Iterable[ControlRecord], base_offset: int, epoch: int, timestamp_ms: int
) -> bytes:
    """Encode one batch of control records, each in the version that its `version` field names."""
    bodies = [(kind, codec.encode_bytes(message, message.version)) for kind, message in records]  # type: ignore[attr-defined]
    return builder.control_batch(
        bodies, timestamp_ms=timestamp_ms, base_offset=base_offset, leader_epoch=epoch
    )


def iter_runs(records: Buffer, *, check_crc: bool = True) -> Iterator[BatchRun]:
    """The headers of a run's complete batches; an incomplete last batch is skipped. Raises
    :class:`CorruptBatchError`."""
    view = memoryview(records)
    position, total = 0, len(view)
    unpack = HEADER.unpack_from
    while total - position >= HEADER_SIZE:
        base, length, epoch, magic, crc, attributes, last_delta = unpack(view, position)[:7]
        end = position + LENGTH_PREFIX + length
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_PREFIX or base < 0 or last_delta < 0:
            raise CorruptBatchError(position, "no batch of format v2")
        if end > total:
            return
        if check_crc and crc32c(view[position + CRC_FROM : end]) != crc:
            raise CorruptBatchError(position, "CRC does not match")
        is_control = bool(attributes & CONTROL)
        yield new_tuple(
            BatchRun, (base, base + last_delta + 1, epoch, is_control, position, end - position)
        )
        position = end


def control_records(batch: Buffer) -> list[ControlRecord]:
    """Decode one control batch; records of unknown types are skipped. Raises :class:`CorruptBatchError`."""
    found: list[ControlRecord] = []
    for key, value in _records(memoryview(batch)):
        if key is None or len(key) < 4:
            raise CorruptBatchError(0, "a control record without a key")
        kind = int.from_bytes(key[2:4], "big")
        cls = CONTROL_CLASSES.get(kind)
        if cls is None or value is None:
            continue
        version = min(int.from_bytes(value[:2], "big"), cls.VALID[1])
        try:
            message, _ = codec.decode_prefix(cls, version, value, 0)
        except codec.MalformedError as error:
            raise CorruptBatchError(0, str(error)) from error
        found.append((kind, message))
    return found


class CommittedEntries(NamedTuple):
    """A range of the log that is to be applied."""

    batches: list[CommittedBatch]
    end_offset: int
    epoch: int
    """Epoch of the last batch, data or control; -1 if there was none."""
    size: int
    """Bytes of the batches in the log."""


def committed_batches(
    records: Buffer, from_offset: int, end_offset: int, *, check_crc: bool = True
) -> CommittedEntries:
    """The data batches of a run within [from_offset, end_offset), their values as views of `records`.
    Raises :class:`CorruptBatchError`."""
    view = memoryview(records)
    found: list[CommittedBatch] = []
    unpack = HEADER.unpack_from
    position, total, epoch = 0, len(view), -1
    while total - position >= HEADER_SIZE:
        base, length, batch_epoch, _, crc, attributes, last_delta, _, stamp, _, _, _, count = (
            unpack(view, position)
        )
        end = position + LENGTH_PREFIX + length
        next_offset = base + last_delta + 1
        if end > total or next_offset > end_offset or end <= position:
            break
        if check_crc and crc32c(view[position + CRC_FROM : end]) != crc:
            raise CorruptBatchError(position, "CRC does not match")
        if check_crc and not base <= from_offset < next_offset:  # no CRC covers the base offset
            raise CorruptBatchError(position, f"no batch with offset {from_offset} is here")
        if next_offset > from_offset:
            if not attributes & CONTROL:
                start = position + HEADER_SIZE
                if attributes & CODEC_MASK:
                    section = _section(view[position:end], attributes)
                    values = _values(section, 0, len(section), count)
                elif count != 1 or (value := _only_value(view, start, end)) is None:
                    values = _values(view, start, end, count)
                else:
                    values = [value]
                found.append(new_tuple(CommittedBatch, (base, batch_epoch, stamp, values)))
            from_offset, epoch = next_offset, batch_epoch
        position = end
    return new_tuple(CommittedEntries, (found, from_offset, epoch, position))


def batch_values(batch: memoryview) -> list[memoryview]:
    """The values of one data batch. Raises :class:`CorruptBatchError`."""
    fields = HEADER.unpack_from(batch, 0)
    section = _section(batch, fields[5])
    return _values(section, 0, len(section), fields[12])


def slices_of_values(batch: memoryview, most: int) -> Iterator[list[memoryview]]:
    """The values of one data batch in lists of at most `most`: Apache Kafka's snapshots have batches of 8
    MB."""
    fields = HEADER.unpack_from(batch, 0)
    section = _section(batch, fields[5])
    position, left = 0, fields[12]
    while left > 0:
        values, position = _some_values(section, position, len(section), min(left, most))
        left -= most
        yield values


def _only_value(view: memoryview, start: int, end: int) -> memoryview | None:
    """Fast path for a batch of one record as the quorum writes it: lengths of one or two bytes, no key, no
    deltas, no headers. Returns its value; None if the record needs the full decoder."""
    if end - start < 9:
        return None
    size, at = view[start], start + 1
    if size & 0x80:
        size, at = size & 0x7F | view[at] << 7, start + 2
    if size >> 1 != end - at or size & 1 or view[at + 1] or view[at + 2] or view[at + 3] != 1:
        return None
    size, at = view[at + 4], at + 5
    if size & 0x80:
        size, at = size & 0x7F | view[at] << 7, at + 1
    if size >> 1 != end - at - 1 or size & 1 or view[end - 1]:
        return None
    return view[at : end - 1]


def _values(section: memoryview, start: int, end: int, count: int) -> list[memoryview]:
    return _some_values(section, start, end, count)[0]


def _some_values(
    section: memoryview, start: int, end: int, count: int
) -> tuple[list[memoryview], int]:
    """The values of the next `count` records of `section`, which ends at `end`, and the position after them.
    In the usual record every varint is one byte, except its length and the value's size."""
    values: list[memoryview] = []
    position = start
    try:
        for _ in range(count):
            start = position
            size = section[start]
            at = start + 1
            if size & 0x80:
                size, at = _varint(section, start)
            else:
                size = (size >> 1) ^ -(size & 1)
            position = at + size
            at += 1
            while section[at] & 0x80:  # timestamp delta
                at += 1
            at += 1
            while section[at] & 0x80:  # offset delta
                at += 1
            at += 1
            key_size = section[at]
            at += 1
            if key_size != 1:
                key_size, at = _varint(section, at - 1)
                at += max(key_size, 0)
            value_size = section[at]
            at += 1
            if value_size & 0x80:
                value_size, at = _varint(section, at - 1)
            else:
                value_size = (value_size >> 1) ^ -(value_size & 1)
            if value_size < 0 or at + value_size > position or position <= start:
                raise CorruptBatchError(start, "a record's lengths contradict each other")
            values.append(section[at : at + value_size])
    except IndexError as error:
        raise CorruptBatchError(position, "records end before their count") from error
    if position > end:
        raise CorruptBatchError(position, "a record goes beyond its batch")
    return values, position


def _section(batch: memoryview, attributes: int) -> memoryview:
    section = batch[HEADER_SIZE:]
    compression = attributes & CODEC_MASK
    if not compression:
        return section
    try:
        return memoryview(decompress(compression, section))
    except CompressionError as error:
        raise CorruptBatchError(0, str(error)) from error


def _records(batch: memoryview) -> Iterator[tuple[memoryview | None, memoryview | None]]:
    """(key, value) of each record."""
    fields = HEADER.unpack_from(batch, 0)
    section = _section(batch, fields[5])
    position = 0
    try:
        for _ in range(fields[12]):
            size, at = _varint(section, position)
            position = at + size
            _, at = _varint(section, at + 1)
            _, at = _varint(section, at)
            key, at = _bytes(section, at)
            value, at = _bytes(section, at)
            yield key, value
    except IndexError as error:
        raise CorruptBatchError(position, "records end before their count") from error


def _bytes(section: memoryview, at: int) -> tuple[memoryview | None, int]:
    size, at = _varint(section, at)
    if size < 0:
        return None, at
    return section[at : at + size], at + size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    first, second = data[at], data[at + 1]
    if first & 0x80 and second < 0x80:  # two bytes: most lengths
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), at + 2
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise CorruptBatchError(at, "a varint of more than ten bytes")
