"""A run of record batches as a fetch brings it: where each batch begins, and its header.

Reads the 61 bytes before the records and checks lengths and CRC; it walks no record and
decompresses nothing, so that whoever only asks *which* batches are there (a reader that looks for
the next offset, a writer that looks for what it wrote before it was killed) pays nothing more.

Source: Kafka protocol guide, record batch v2 (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from barnabas.types import Buffer

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
LENGTH_PREFIX = 12
"""Bytes before what the batch's length counts."""
CRC_AT = 17
CRC_FROM = 21
"""First byte that the CRC covers."""
PRODUCER = Struct(">qhi")
PRODUCER_AT = 43
"""Where producer id, producer epoch and base sequence stand."""
MAGIC = 2
COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class CorruptBatchError(ValueError):
    """The bytes are no run of record batches of format v2. `offset` is where it was noticed."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"record batch at offset {offset}: {why}")
        self.offset = offset


class BatchHeader(NamedTuple):
    """The 61 bytes before the records of a batch, as they stand."""

    base_offset: int
    length: int
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
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


class WholeBatch(NamedTuple):
    """One batch of a run: its header and all its bytes, header included."""

    header: BatchHeader
    data: memoryview


def whole_batches(records: Buffer, *, check_crc: bool = True) -> Iterator[WholeBatch]:
    """The whole batches of a run in order; a cut-off batch at its end is left out.

    Raises :class:`CorruptBatchError`.
    """
    view = memoryview(records)
    position = 0
    while len(view) - position >= HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack_from(view, position))
        if header.magic != MAGIC:
            raise CorruptBatchError(header.base_offset, f"magic {header.magic}, only 2 is read")
        if header.length < HEADER_SIZE - LENGTH_PREFIX:
            raise CorruptBatchError(header.base_offset, f"length {header.length} is too small")
        end = position + LENGTH_PREFIX + header.length
        if end > len(view):
            return
        if check_crc and crc32c(view[position + CRC_FROM : end]) != header.crc:
            raise CorruptBatchError(header.base_offset, "CRC does not match")
        if header.count < 0 or header.last_offset_delta < 0:
            raise CorruptBatchError(header.base_offset, "negative count or offset delta")
        yield WholeBatch(header, view[position:end])
        position = end


def end_of_run(records: Buffer, start: int) -> int:
    """The offset behind the last whole batch, at least `start`. CRCs are not looked at."""
    end = start
    for batch in whole_batches(records, check_crc=False):
        end = max(end, batch.header.last_offset + 1)
    return end


def write_header(target: bytearray | memoryview, header: BatchHeader) -> None:
    """Put `header` before a batch's records in `target`, with the length and CRC they give."""
    length = len(target) - LENGTH_PREFIX
    HEADER.pack_into(target, 0, *header._replace(length=length, magic=MAGIC, crc=0))
    seal(target)


def stamp_producer(
    batch: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Say in a whole batch who writes it, and the CRC anew."""
    PRODUCER.pack_into(batch, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    seal(batch)


def seal(batch: bytearray | memoryview) -> None:
    """Write the CRC of a whole batch."""
    crc = crc32c(memoryview(batch)[CRC_FROM:])
    batch[CRC_AT:CRC_FROM] = crc.to_bytes(4, "big")
