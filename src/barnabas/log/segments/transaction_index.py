"""The aborted-transaction index of a segment (``.txnindex``), and what a control batch says.

Entry: int16 version 0, int64 producer id, first offset, last offset, last stable offset. An aborted
transaction is listed in the segment that holds its marker; readers continue through later segments until the
last stable offset of an entry shows that none further can touch what they read.

Source: Kafka's ``TransactionIndex``.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from barnabas.log.file_cache import FileCache
from barnabas.log.segments.segment import Segment
from barnabas.log.state.producer_state import CompletedTransaction
from barnabas.record.batch import BatchHeader, BatchView
from barnabas.record.builder import CONTROL_KEY, END_TRANSACTION_VALUE, ControlType
from barnabas.record.decode import records_of
from barnabas.types import Buffer

ENTRY = Struct(">hqqqq")
EMPTY = (0, 0)
"""`seal_of` no entries."""


def marker_of(header: BatchHeader, batch: memoryview) -> tuple[bool, int] | None:
    """(aborted, coordinator epoch) of a control batch that ends a transaction; None for others."""
    for record in records_of(BatchView(header, 0, batch)):
        if record.key is None or len(record.key) < CONTROL_KEY.size:
            return None
        _, kind = CONTROL_KEY.unpack_from(record.key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        try:
            _, epoch = END_TRANSACTION_VALUE.unpack_from(record.value or b"")
        except StructError:
            epoch = -1
        return kind == ControlType.ABORT, epoch
    return None


def append_aborted(
    files: FileCache, segment: Segment, done: CompletedTransaction, last_stable_offset: int
) -> None:
    entry = ENTRY.pack(0, done.producer_id, done.first_offset, done.last_offset, last_stable_offset)
    files.get(segment.transaction_index_path).append([entry])
    seal = segment.aborted_seal or (EMPTY if segment.has_no_aborted else None)
    if seal is not None:
        segment.aborted_seal = (seal[0] + ENTRY.size, crc32c(entry, seal[1]))
    segment.has_no_aborted = False


def seal_of(data: Buffer) -> tuple[int, int]:
    """Length and CRC of an index's bytes."""
    return len(data), crc32c(data)


def entries_of(data: Buffer) -> list[tuple[int, int, int, int]]:
    """(Producer id, first, last, last stable offset) of the whole entries of an index's bytes; those of
    another version have no offset."""
    whole = len(data) - len(data) % ENTRY.size
    return [
        entry[1:] if entry[0] == 0 else (-1, -1, -1, -1)
        for entry in ENTRY.iter_unpack(memoryview(data)[:whole])
    ]


def bytes_of(entries: Iterable[tuple[int, int, int, int]]) -> bytes:
    return b"".join(ENTRY.pack(0, *entry) for entry in entries)


def truncate_aborted(files: FileCache, segment: Segment, offset: int) -> None:
    """Drop entries whose marker is at or behind `offset`."""
    path = segment.transaction_index_path
    if not files.disk.exists(path):
        return
    data, count = files.disk.read_file(path), 0
    for _, _, last, _ in entries_of(data):
        if last >= offset:
            break
        count += 1
    files.get(path).truncate(count * ENTRY.size)
    sealed = seal_of(data) == segment.aborted_seal
    segment.aborted_seal = seal_of(data[: count * ENTRY.size]) if sealed else None
