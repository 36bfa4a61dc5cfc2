"""Takes apart records that were read from the log: bounds of batches, aborted ranges, a slice.

Source: ``ShareFetchUtils`` and ``SharePartition.fetchAbortedTransactionRecordBatches`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.broker.share.share_partition import Acquired
from barnabas.record.batch import BatchView, iterate
from barnabas.record.builder import CONTROL_KEY, ControlType
from barnabas.record.decode import records_of
from barnabas.types import Buffer


class ReadBatch(NamedTuple):
    """One complete batch."""

    first: int
    last: int
    start: int
    """The position of its bytes."""
    end: int


def batches_of(records: Buffer) -> list[ReadBatch]:
    """The complete batches of `records`, in order."""
    return [
        ReadBatch(
            view.header.base_offset,
            view.header.last_offset,
            view.position,
            view.position + view.header.size,
        )
        for view in iterate(records)
    ]


def slice_for(
    records: Buffer, batches: Sequence[ReadBatch], acquired: Sequence[Acquired]
) -> Buffer:
    """The bytes of the batches that have acquired records."""
    first, last = acquired[0].first, acquired[-1].last
    wanted = [batch for batch in batches if batch.last >= first and batch.first <= last]
    if not wanted:
        return b""
    return memoryview(records)[wanted[0].start : wanted[-1].end]


def aborted_ranges(records: Buffer, aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The offsets of batches whose transactions were aborted; `aborted` has producer ids with the first
    offsets of their transactions."""
    waiting = sorted(aborted, key=lambda entry: entry[1])
    open_producers: set[int] = set()
    ranges: list[tuple[int, int]] = []
    for view in iterate(records):
        header = view.header
        if header.producer_id < 0:
            continue
        while waiting and waiting[0][1] <= header.last_offset:
            open_producers.add(waiting.pop(0)[0])
        if header.is_control:
            if _is_abort(view):
                open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            ranges.append((header.base_offset, header.last_offset))
    return ranges


def _is_abort(view: BatchView) -> bool:
    for record in records_of(view):
        return bool(CONTROL_KEY.unpack_from(record.key or b"")[1] == ControlType.ABORT)
    return False
