"""The aborted-transaction index of a segment (``.txnindex``), and what a control batch says.

Entry: int16 version 0, int64 producer id, first offset, last offset, last stable offset. An aborted
transaction is listed in the segment that holds its marker; readers continue through later segments until the
last stable offset of an entry shows that none further can touch what they read.

Source: Kafka's ``TransactionIndex``.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from barnabas.log.file_cache import FileCache
from barnabas.log.state.producer_state import CompletedTransaction
from barnabas.ports import Disk
from barnabas.record.batch import BatchHeader, BatchView
from barnabas.record.builder import CONTROL_KEY, END_TRANSACTION_VALUE, ControlType
from barnabas.record.decode import records_of
from barnabas.types import Buffer

ENTRY = Struct(">hqqqq")


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
    files: FileCache, path: str, done: CompletedTransaction, last_stable_offset: int
) -> None:
    entry = ENTRY.pack(0, done.producer_id, done.first_offset, done.last_offset, last_stable_offset)
    files.get(path).append([entry])


def read_aborted(disk: Disk, path: str) -> list[tuple[int, int, int, int]]:
    """(producer id, first, last, last stable offset) per entry."""
    return entries_of(disk.read_file(path)) if disk.exists(path) else []


def entries_of(data: Buffer) -> list[tuple[int, int, int, int]]:
    """The whole entries of an index's bytes; those of another version have no offset."""
    whole = len(data) - len(data) % ENTRY.size
    return [
        entry[1:] if entry[0] == 0 else (-1, -1, -1, -1)
        for entry in ENTRY.iter_unpack(memoryview(data)[:whole])
    ]


def truncate_aborted(files: FileCache, path: str, offset: int) -> None:
    """Drop entries whose marker is at or behind `offset`."""
    if not files.disk.exists(path):
        return
    count = 0
    for _, _, last, _ in read_aborted(files.disk, path):
        if last >= offset:
            break
        count += 1
    files.get(path).truncate(count * ENTRY.size)
