"""Record batches of format v2: their 61-byte header is read and changed in place.

Batches are kept as bytes. The header is decoded by one ``struct``; the records are passed on as a view. The
CRC covers all bytes from the attributes on, so that a leader can set the base offset and the leader epoch
without a new CRC.

Source: Kafka protocol guide, record batch v2 (KIP-98). Kafka's ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from barnabas.types import Buffer, new_tuple

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
LENGTH_PREFIX = 12
"""Bytes that the batch's length does not count: base offset and length."""
LENGTH_MIN = HEADER_SIZE - LENGTH_PREFIX
OFFSET_AND_LENGTH = Struct(">qi")
PATCH = Struct(">qii")
"""Base offset, length, leader epoch: a leader sets the first and the last."""
PATCH_SIZE = 16
MAGIC_AT = 16
CRC_AT = 17
CRC_FROM = 21
MAX_TIMESTAMP_AT = 35
PRODUCER = Struct(">qhi")
PRODUCER_AT = 43
"""Position of producer id, producer epoch and base sequence."""
MAGIC = 2
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
HAS_DELETE_HORIZON = 0x40
NO_TIMESTAMP = -1


class CorruptBatchError(ValueError):
    """The bytes are not valid batches of format v2. `position` is that of the invalid batch."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"record batch at position {position}: {why}")
        self.position = position
        self.why = why


class UnsupportedMagicError(CorruptBatchError):
    """A batch of format 0 or 1, which no supported producer writes any more."""


class BatchHeader(NamedTuple):
    """The header's fields, in the order of the bytes. Timestamps are in ms since 1970-01-01 UTC."""

    base_offset: int
    length: int
    """Bytes after the length field."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_PREFIX

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, which follows 2^31 - 1 by 0; -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


_unpack = HEADER.unpack_from


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked. Raises ``struct.error`` where fewer than 61 bytes are left."""
    return new_tuple(BatchHeader, _unpack(data, position))


def check_shape(header: BatchHeader, position: int = 0) -> None:
    """Check the format, the length and the counts. Raises :class:`CorruptBatchError`."""
    if header.magic != MAGIC:
        if header.magic in (0, 1):
            raise UnsupportedMagicError(position, f"format {header.magic} is not supported")
        raise CorruptBatchError(position, f"unknown format {header.magic}")
    if header.length < LENGTH_MIN:
        raise CorruptBatchError(position, f"impossible length {header.length}")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptBatchError(position, "negative offset delta or count")


def check_crc(header: BatchHeader, data: memoryview, position: int = 0) -> None:
    """Raises :class:`CorruptBatchError` where the CRC of the batch at `position` does not match."""
    end = position + LENGTH_PREFIX + header.length
    if crc32c(data[position + CRC_FROM : end]) != header.crc:
        raise CorruptBatchError(position, "the CRC does not match")


class BatchView(NamedTuple):
    """One complete batch in a run of batches."""

    header: BatchHeader
    position: int
    """The position of the batch in the run."""
    data: memoryview
    """The whole batch, header included."""

    @property
    def payload(self) -> memoryview:
        """The records, perhaps compressed."""
        return self.data[HEADER_SIZE:]


def iterate(
    records: Buffer, *, crc: bool = False, partial_tail: bool = True, position: int = 0
) -> Iterator[BatchView]:
    """The complete batches of a run from `position` on, in order. An incomplete batch at the end is ignored;
    without `partial_tail` it is an error. Raises :class:`CorruptBatchError`."""
    view = memoryview(records)
    size = len(view)
    while size - position >= HEADER_SIZE:
        header = new_tuple(BatchHeader, _unpack(view, position))
        end = position + LENGTH_PREFIX + header[1]
        if header[3] != MAGIC or header[1] < LENGTH_MIN or header[6] < 0 or header[12] < 0:
            check_shape(header, position)  # raises the exact error
        if end > size:
            break
        if crc and crc32c(view[position + CRC_FROM : end]) != header[4]:
            check_crc(header, view, position)  # likewise
        yield new_tuple(BatchView, (header, position, view[position:end]))
        position = end
    if position != size and not partial_tail:
        raise CorruptBatchError(position, f"{size - position} bytes are no whole batch")


def last_whole(records: Buffer) -> tuple[BatchHeader | None, int, CorruptBatchError | None]:
    """(header of a run's last complete batch, its end, the error in the bytes after it). The error is None
    where there are no such bytes or they are an incomplete batch."""
    size, position = len(records), 0
    last = None
    while size - position >= HEADER_SIZE:
        header = new_tuple(BatchHeader, _unpack(records, position))
        end = position + LENGTH_PREFIX + header[1]
        if header[3] != MAGIC or header[1] < LENGTH_MIN or header[6] < 0 or header[12] < 0:
            try:
                check_shape(header, position)
            except CorruptBatchError as error:
                return last, position, error
        if end > size:
            break
        last, position = header, end
    return last, position, None


def whole_size(records: Buffer) -> int:
    """Bytes of the complete batches at the start of `records`; reads only their lengths."""
    size, position = len(records), 0
    while size - position >= LENGTH_PREFIX:
        _, length = OFFSET_AND_LENGTH.unpack_from(records, position)
        end = position + LENGTH_PREFIX + length
        if length < 0 or end > size:
            break
        position = end
    return position


def seal(batch: bytearray | memoryview) -> None:
    """Compute the CRC of a complete batch and write it into the batch."""
    crc = crc32c(memoryview(batch)[CRC_FROM:])
    batch[CRC_AT:CRC_FROM] = crc.to_bytes(4, "big")


def write_header(target: bytearray | memoryview, header: BatchHeader) -> None:
    """Write `header` into `target`, before the records that it has already, with their length and CRC."""
    length = len(target) - LENGTH_PREFIX
    HEADER.pack_into(
        target, 0, header.base_offset, length, header.leader_epoch, MAGIC, 0, *header[5:]
    )
    seal(target)


def stamp_producer(
    batch: bytearray | memoryview,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    is_transactional: bool = False,
) -> None:
    """Set the producer's fields of a complete batch, and its CRC."""
    if is_transactional:
        batch[CRC_FROM + 1] |= TRANSACTIONAL
    PRODUCER.pack_into(batch, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    seal(batch)
