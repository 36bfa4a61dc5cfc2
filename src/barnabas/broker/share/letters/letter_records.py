"""Dead letters as records: headers that say from where, how often and why, and perhaps the key and value.

Source: ``ShareGroupDLQStateManager.topicProduceData`` and ``ShareGroupDLQRecordFetcher`` of Apache Kafka
4.4; KIP-1191.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from barnabas.broker.share.open_letters import DeadLetter
from barnabas.record.batch import HEADER_SIZE, BatchView, CorruptBatchError, iterate
from barnabas.record.builder import RecordTuple, write_record
from barnabas.record.decode import records_of
from barnabas.types import Buffer

RECORD_BYTES_MORE = 10
"""The most that a record takes more where it is not its batch's first: its deltas are larger."""
Copied = Mapping[int, tuple[bytes | None, bytes | None]]
"""Keys and values by offset."""


class LetterOrigin(NamedTuple):
    """The records' home."""

    group_id: str
    topic: str
    partition: int


class LetterRecords(NamedTuple):
    """Some records of a dead letter, from its next offset on."""

    records: list[RecordTuple]
    size: int


def keys_and_values(data: Buffer, spans: Sequence[tuple[int, int]]) -> tuple[Copied, int]:
    """The records in `data` that can be decoded and are in one of `spans`, and the offset from which on the
    data say nothing. `spans` are first and last offsets, sorted."""
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    end, last = spans[0][0], max(last for _, last in spans)
    for view in iterate(data):
        header = view.header
        if header.base_offset > last:
            break
        end = max(end, header.last_offset + 1)
        inside = [s for s in spans if s[0] <= header.last_offset and s[1] >= header.base_offset]
        if header.is_control or not inside:
            continue
        with suppress(CorruptBatchError):  # its producer wrote it so: consumers reject it, too
            for offset, copied in _within(view, inside):
                found[offset] = copied
    return found, end


def _within(
    view: BatchView, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, tuple[bytes | None, bytes | None]]]:
    """The records of one batch that are in one of `spans`, by offset."""
    last = max(last for _, last in spans)
    for record in records_of(view, start=spans[0][0]):
        if record.offset > last:
            break
        if any(low <= record.offset <= high for low, high in spans):
            yield record.offset, (record.key, record.value)


def letter_records(
    origin: LetterOrigin,
    letter: DeadLetter,
    first: int,
    last: int,
    copied: Copied,
    bytes_max: int,
    now_ms: int,
) -> LetterRecords:
    """The records for offsets `first` to `last`, as many as fit into a batch of `bytes_max`, at least one. A
    record that does not fit alone goes without its key and value."""
    records: list[RecordTuple] = []
    size = HEADER_SIZE
    for offset in range(first, last + 1):
        key, value = copied.get(offset, (None, None))
        headers = _headers(origin, letter, offset)
        more = _size(key, value, headers)
        if HEADER_SIZE + more > bytes_max:
            key, value, more = None, None, _size(None, None, headers)
        if records and size + more > bytes_max:
            break
        records.append((key, value, headers, now_ms))
        size += more
    return LetterRecords(records, size)


def _size(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> int:
    out = bytearray()
    write_record(out, 0, 0, key, value, headers)
    return len(out) + RECORD_BYTES_MORE


def _headers(
    origin: LetterOrigin, letter: DeadLetter, offset: int
) -> list[tuple[str, bytes | None]]:
    """In Kafka's names and order."""
    return [
        ("__dlq.errors.topic", origin.topic.encode()),
        ("__dlq.errors.partition", b"%d" % origin.partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", origin.group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % letter.deliveries),
        ("__dlq.errors.message", letter.why.encode()),
    ]
