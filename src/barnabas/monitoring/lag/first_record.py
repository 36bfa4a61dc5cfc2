"""Finds the timestamp of the first record at or after an offset in the batches that a leader
returns.

In most cases a batch's header has it: all records have the broker's time, or the batch begins at or
after the offset. Else the records are read. If they unpack to more than `DECOMPRESSED_BYTES_MAX`,
the batch's first timestamp is taken. Markers of transactions do not count: no group has to read
them.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.record.batch import BatchView, CorruptBatchError, iterate
from barnabas.record.compression import UnpacksTooFarError
from barnabas.record.decode import records_of
from barnabas.types import Buffer

DECOMPRESSED_BYTES_MAX = 4 << 20
"""The most bytes of a batch that the loop decompresses for a scrape."""


class FirstRecord(NamedTuple):
    """The first record of the batches at or after an offset."""

    timestamp_ms: int | None
    """The record's timestamp (date; -1 where its producer gave none), or None: there is no record before
    `next_offset`."""
    next_offset: int


def first_record(records: Buffer, offset: int) -> FirstRecord:
    """Raises ``CorruptBatchError``."""
    reached = offset
    for batch in iterate(records):
        header = batch.header
        if header.next_offset <= offset:
            continue
        reached = header.next_offset
        timestamp = None if header.is_control else _timestamp(batch, offset)
        if timestamp is not None:
            return FirstRecord(timestamp, reached)
    return FirstRecord(None, reached)


def _timestamp(batch: BatchView, offset: int) -> int | None:
    header = batch.header
    if not header.record_count:
        return None  # compaction keeps the headers of batches whose records are gone
    if header.is_log_append_time:
        return header.max_timestamp
    if header.base_offset >= offset:
        return header.base_timestamp
    try:
        return next(
            (
                record.timestamp
                for record in records_of(batch, DECOMPRESSED_BYTES_MAX, start=offset)
            ),
            None,
        )
    except CorruptBatchError as error:
        if isinstance(error.__cause__, UnpacksTooFarError):
            return header.base_timestamp  # not later than the record: an upper bound of its age
        raise
