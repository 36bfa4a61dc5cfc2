"""Builds record batches of format v2 for coordinators, the quorum's log, the client and tests.

A record is ``(key, value)``, ``(key, value, headers)`` or ``(key, value, headers, timestamp_ms)``; headers
are (name, value) pairs.

Source: Kafka's ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from barnabas.record.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    seal,
)
from barnabas.record.compression import Codec, compress

RecordTuple = tuple[Any, ...]
CONTROL_KEY = Struct(">hh")
"""Version and type of a control record."""
END_TRANSACTION_VALUE = Struct(">hi")
"""Version and coordinator epoch."""


class ControlType:
    """Types of control records (``ControlRecordType``)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def write_varint(value: int, out: bytearray) -> None:
    """Append a signed 64-bit `value` as a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_record(
    out: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> None:
    """Append one record with its length to `out`. `timestamp_delta` is in ms."""
    # One-byte varints, the usual case, are encoded inline: calls for them would cost most of the time.
    body = bytearray(1)  # attributes
    for number in (timestamp_delta, offset_delta):
        if 0 <= number < 64:
            body.append(number << 1)
        else:
            write_varint(number, body)
    for part in (key, value):
        if part is None:
            body.append(1)  # -1
            continue
        size = len(part)
        if size < 64:
            body.append(size << 1)
        else:
            write_varint(size, body)
        body += part
    if headers:
        _write_headers(body, headers)
    else:
        body.append(0)
    size = len(body)
    if size < 64:
        out.append(size << 1)
    else:
        write_varint(size, out)
    out += body


def _write_headers(body: bytearray, headers: Iterable[tuple[str, bytes | None]]) -> None:
    pairs = list(headers)
    write_varint(len(pairs), body)
    for name, content in pairs:
        encoded = name.encode()
        write_varint(len(encoded), body)
        body += encoded
        if content is None:
            body.append(1)
        else:
            write_varint(len(content), body)
            body += content


def build_batch(  # noqa: PLR0913 - fields of a batch header
    records: Sequence[RecordTuple],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    codec: int = Codec.NONE,
    log_append_time: bool = False,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """One batch. `timestamp_ms` is the timestamp of records without their own. `offset_deltas` has the
    offset delta of each record, for batches with gaps (compaction); by default they are 0, 1, 2 and so on.
    The last one is the batch's last offset delta."""
    body = bytearray()
    first: int | None = None
    max_timestamp = -1
    for index, record in enumerate(records):
        fields = len(record)
        timestamp = record[3] if fields > 3 and record[3] is not None else timestamp_ms
        if first is None:
            first, max_timestamp = timestamp, timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        delta = index if offset_deltas is None else offset_deltas[index]
        headers = record[2] if fields > 2 else ()
        write_record(body, delta, timestamp - first, record[0], record[1], headers)
    attributes = int(codec)
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if log_append_time:
        attributes |= LOG_APPEND_TIME
    last = len(records) - 1 if offset_deltas is None else offset_deltas[-1]
    batch = bytearray(HEADER_SIZE)
    batch += compress(codec, body) if codec else body
    HEADER.pack_into(
        batch, 0,
        base_offset, len(batch) - LENGTH_PREFIX, leader_epoch, MAGIC, 0, attributes, max(last, 0),
        timestamp_ms if first is None else first,
        timestamp_ms if first is None else max_timestamp,
        producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    seal(batch)
    return bytes(batch)


def control_batch(
    controls: Sequence[tuple[int, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """A control batch. `controls` are the (type, value) of its records."""
    return build_batch(
        [(CONTROL_KEY.pack(0, kind), value) for kind, value in controls],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def end_transaction_marker(
    *,
    commit: bool,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> bytes:
    """The control batch that ends a transaction in one partition."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return control_batch(
        [(kind, END_TRANSACTION_VALUE.pack(0, coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )
