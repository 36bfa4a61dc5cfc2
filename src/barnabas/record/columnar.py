"""Decodes record batches v2 into Arrow columns, without a Python object per record.

Converts fetched bytes to :class:`pyarrow.RecordBatch`: finds the complete batches, checks their CRC,
decompresses them, and writes their records to columns by compiled loops
(:mod:`barnabas.record.columnar_kernels`). Python code runs once per *batch*.

* Control batches give no rows. Batches of aborted transactions give none where the fetch reported
  the aborted transactions (`read_committed`).
* Records before `start` or from `end` on are left out. An incomplete batch at the end of the bytes is
  ignored; the next fetch has it whole.
* Bytes that are no batch, a wrong CRC, and records that contradict their batch raise
  :class:`CorruptBatchError`.

Needs numpy and pyarrow; is fast with numba only. The broker does not import this module.

Source: Kafka protocol guide, record batch v2 (KIP-98); control records (KIP-98).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.record import columnar_kernels as kernels
from barnabas.record.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    BatchView,
    CorruptBatchError,
    iterate,
)
from barnabas.record.builder import ControlType
from barnabas.record.unpacking import Unpacker
from barnabas.types import Buffer

GROUP_BYTES_MAX = 8 << 20
"""Uncompressed bytes in one Arrow batch; a single larger record batch makes a larger one."""
GROUP_RECORDS_MAX = 1 << 15
"""Records in one Arrow batch; a single record batch with more makes a larger one."""
SMALL_BYTES = 1024
"""Largest size of a batch that is decoded in one call together with others, if it is plain (`NOT_PLAIN`)."""
SMALL_RUN = 4
"""Number of small batches in a row after which the following ones are decoded in one call."""
SMALLEST_BATCH = HEADER_SIZE + 7
"""Size of a batch with one empty record."""
NOT_PLAIN = CODEC_MASK | CONTROL | TRANSACTIONAL
"""A batch with none of these attributes is plain."""
KEY, VALUE, HEADERS, TIMESTAMP = "key", "value", "headers", "timestamp"
ALL = frozenset({KEY, VALUE, HEADERS, TIMESTAMP, "topic", "partition", "offset", "timestampType"})
"""Names of all columns."""
IN_RECORDS = frozenset({KEY, VALUE, HEADERS, TIMESTAMP})
"""Columns for which records must be decoded; the others follow from the headers of batches."""


class AbortedTransaction(NamedTuple):
    """An aborted transaction in the answer to a read_committed fetch: the records of `producer_id` from
    `first_offset` up to its ABORT marker are not to be read."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class AbortedFilter:
    """Finds the batches that a read_committed reader must skip: control batches and those of aborted
    transactions. Batches must come in the order of their offsets."""

    aborted: list[AbortedTransaction]
    """Transactions whose first offset is not reached yet, the next one last."""
    open: set[int] = field(default_factory=set)
    """Producers in an aborted transaction at the present offset."""

    @classmethod
    def of(cls, aborted: Sequence[AbortedTransaction]) -> AbortedFilter:
        """A filter at the start of a run; `aborted` may have any order."""
        return cls(sorted(aborted, key=lambda transaction: -transaction.first_offset))

    def is_void(self, batch: BatchView) -> bool:
        """Take the next batch of the run. True where its records are to be skipped."""
        header = batch.header
        while self.aborted and self.aborted[-1].first_offset <= header.last_offset:
            self.open.add(self.aborted.pop().producer_id)
        if header.is_control:
            # Compaction may empty a control batch but keep it, for the producer's state or an offset.
            if header.record_count and control_type(batch) == ControlType.ABORT:
                self.open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self.open


def control_type(batch: BatchView) -> int:
    """The `ControlType` of a control batch's first record. Raises :class:`CorruptBatchError`."""
    data = kernels.frozen(np.frombuffer(batch.payload, np.uint8))
    end = len(data)
    _, position = kernels.read_varint(data, 0, end)
    for skipped in (1, 0):  # attributes (1 byte) and timestamp delta; offset delta
        if position >= 0:
            _, position = kernels.read_varint(data, position + skipped, end)
    key_at, key_size = 0, 0
    if position >= 0:
        key_at, key_size, position = kernels.read_field(data, position, end)
    if position < 0 or key_size < 4:
        raise CorruptBatchError(batch.position, "control record without a type")
    return int.from_bytes(batch.payload[key_at + 2 : key_at + 4], "big", signed=True)


class DecodedRecords(NamedTuple):
    """The decoded records of one fetched run."""

    columns: list[Columns]
    next_offset: int
    """Offset for the next fetch: after the last complete batch, or `start` if there is none."""
    rows: int


@dataclass(slots=True)
class Columns:
    """Records of one partition as columns; all have the same number of rows."""

    offsets: kernels.Longs
    timestamps_us: kernels.Longs
    log_append_time: kernels.Bytes
    """1 where the broker gave the timestamp (``timestampType`` 1), 0 where the producer did."""
    keys: Binary
    values: Binary
    headers: Headers | None
    """None where headers were not wanted; keys and values that were not wanted are empty or null."""

    def __len__(self) -> int:
        return len(self.offsets)

    def to_arrow(self, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
        """Arrow columns in the order and types of `schema`, chosen by the fields' names."""
        rows = len(self)
        arrays = []
        for column in schema:
            match column.name:
                case "key":
                    array = self.keys.to_arrow()
                case "value":
                    array = self.values.to_arrow()
                case "topic":
                    array = repeated_text(topic, rows)
                case "partition":
                    array = numbers(np.full(rows, partition, np.int32), pa.int32())
                case "offset":
                    array = numbers(self.offsets, pa.int64())
                case "timestamp":
                    array = numbers(self.timestamps_us, column.type)
                case "timestampType":
                    array = numbers(self.log_append_time.astype(np.int32), pa.int32())
                case "headers":
                    array = headers_to_arrow(self.headers, rows, column.type)
                case unknown:
                    raise ValueError(f"no column {unknown!r} in a record")
            arrays.append(array if array.type == column.type else array.cast(column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(slots=True)
class Binary:
    """Byte strings one after the other: row i is ``data[ends[i]:ends[i + 1]]``, or null where ``valid[i]``
    is 0."""

    ends: kernels.Ints
    valid: kernels.Bytes
    data: kernels.Bytes

    @classmethod
    def empty(cls, rows: int, size: int) -> Binary:
        """Arrays to be filled with `rows` strings of at most `size` bytes in all."""
        ends = np.empty(rows + 1, np.int32)
        ends[0] = 0
        return cls(ends, np.empty(rows, np.uint8), np.empty(size, np.uint8))

    @classmethod
    def nothing(cls, rows: int) -> Binary:
        """`rows` nulls."""
        return cls(np.zeros(rows + 1, np.int32), np.zeros(rows, np.uint8), np.empty(0, np.uint8))

    def cut(self, rows: int) -> Binary:
        """The first `rows` rows."""
        used = int(self.ends[rows])
        # `data` has the size of the worst case: a view would keep all of it in memory during a query.
        data = self.data[:used].copy() if used < len(self.data) // 2 else self.data[:used]
        return Binary(self.ends[: rows + 1], self.valid[:rows], data)

    def to_arrow(self, type_: pa.DataType | None = None) -> pa.Array:
        rows = len(self.valid)
        nulls = rows - int(np.count_nonzero(self.valid))
        buffers = [validity(self.valid) if nulls else None, pa.py_buffer(self.ends)]
        buffers.append(pa.py_buffer(self.data))
        return pa.Array.from_buffers(type_ or pa.binary(), rows, buffers, null_count=nulls)


@dataclass(slots=True)
class Headers:
    """The headers of all rows one after the other; row i has those from ``ends[i]`` up to ``ends[i + 1]``."""

    ends: kernels.Ints
    keys: Binary
    values: Binary


def validity(valid: kernels.Bytes) -> pa.Buffer:
    """Arrow's bitmap (least significant bit first) of a 0/1 array."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def numbers(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """An array over the memory of `values`. Without ``pa.array``, which imports pandas where it is installed:
    a quarter of a second and 35 MiB in each process of a query."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)], null_count=0)


def repeated_text(text: str, rows: int) -> pa.Array:
    """A string array of `rows` times `text`."""
    raw = np.frombuffer(text.encode(), np.uint8)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(np.tile(raw, rows))]
    )


def headers_to_arrow(headers: Headers | None, rows: int, type_: pa.DataType) -> pa.Array:
    """An array of ``list<struct<key, value>>``; null for a record without headers, as in Spark's
    connector."""
    if headers is None:
        return pa.nulls(rows, type_)
    items = pa.StructArray.from_arrays(
        [headers.keys.to_arrow(pa.string()), headers.values.to_arrow()],
        fields=list(type_.value_type),
    )
    has = (headers.ends[1:] > headers.ends[:-1]).astype(np.uint8)
    return pa.Array.from_buffers(
        type_,
        rows,
        [validity(has), pa.py_buffer(headers.ends)],
        null_count=rows - int(np.count_nonzero(has)),
        children=[items],
    )


def decode(
    records: Buffer,
    start: int,
    end: int,
    *,
    aborted: Sequence[AbortedTransaction] | None = None,
    include_headers: bool = False,
    check_crc: bool = True,
) -> DecodedRecords:
    """All groups of `decode_groups`, and the offset of the next fetch. Raises :class:`CorruptBatchError`."""
    wanted = ALL if include_headers else ALL - {HEADERS}
    groups = decode_groups(records, start, end, aborted=aborted, wanted=wanted, check_crc=check_crc)
    columns = list(groups)
    next_offset = start
    for batch in iterate(records):
        if batch.header.base_offset >= end:
            next_offset = max(next_offset, end)
            break
        next_offset = max(next_offset, batch.header.last_offset + 1)
    return DecodedRecords(columns, next_offset, sum(len(column) for column in columns))


def decode_groups(
    records: Buffer,
    start: int,
    end: int,
    *,
    aborted: Sequence[AbortedTransaction] | None = None,
    wanted: frozenset[str] = ALL,
    check_crc: bool = True,
    unpacker: Unpacker | None = None,
) -> Iterator[Columns]:
    """Decode the records of fetched bytes whose offset is in ``[start, end)``, some thousands at a time.

    `aborted` are the aborted transactions that a read_committed fetch reported; None reads uncommitted
    records too. `wanted` names the columns to fill. If none of them is in `IN_RECORDS`, the rows of batches
    without gaps are made from their headers alone. A caller that decodes several runs in turn may pass its
    own `unpacker`, whose buffer is then reused. Raises :class:`CorruptBatchError`.
    """
    void = None if aborted is None else AbortedFilter.of(aborted)
    group = _Group(unpacker or Unpacker(), start, end, wanted)
    needs_records = bool(wanted & IN_RECORDS)
    smalls = 0
    batches = iterate(records, crc=check_crc)
    while (batch := next(batches, None)) is not None:
        header = batch.header
        if header.base_offset >= end:
            break
        smalls = smalls + 1 if is_small(header) and HEADERS not in wanted else 0
        if smalls == SMALL_RUN:
            yield from group.columns()
            position = yield from _small_groups(records, batch.position, start, end, wanted)
            batches, smalls = iterate(records, crc=check_crc, position=position), 0
            continue
        hidden = void.is_void(batch) if void is not None else header.is_control
        if hidden or header.last_offset < start or not header.record_count:
            continue
        if not needs_records and header.record_count == header.last_offset_delta + 1:
            yield from group.columns()
            yield from _offsets_of(batch, start, end)
        elif not group.take(batch):
            yield from group.columns()
            group.take(batch)
    yield from group.columns()


def is_small(header: BatchHeader) -> bool:
    """Whether the batch may be decoded in one call together with others: small and plain."""
    return header.length <= SMALL_BYTES and not header.attributes & NOT_PLAIN


def _small_groups(
    records: Buffer, position: int, start: int, end: int, wanted: frozenset[str]
) -> Generator[Columns, None, int]:
    """Yields columns of the small plain batches from `position` on; returns the position of the next
    batch."""
    from barnabas.record.small_batches import decode_small_batches  # loaded only where it is used

    data = kernels.frozen(np.frombuffer(records, np.uint8))
    while True:
        size = min(len(data) - position, GROUP_BYTES_MAX)
        room = _Room(min(size // SMALLEST_BATCH, GROUP_RECORDS_MAX), size, wanted)
        after, row, status = decode_small_batches(
            data, position, SMALL_BYTES, start, end, *room.arrays
        )
        if status != kernels.OK:
            raise CorruptBatchError(after, "its records are malformed")
        if after == position:
            return position
        position = after
        yield from _filled(room.columns(row, None))


class _Group:
    """Batches that are decoded together, into one Arrow batch."""

    def __init__(self, unpacker: Unpacker, start: int, end: int, wanted: frozenset[str]) -> None:
        self._unpacker = unpacker
        self._range = start, end
        self._wanted = wanted
        self._batches: list[tuple[BatchView, kernels.Bytes]] = []
        self._bytes = self._records = 0

    def take(self, batch: BatchView) -> bool:
        """Add `batch` to the group, if it has room; an empty group takes every batch. Returns whether it did.
        Raises :class:`CorruptBatchError`."""
        bytes_max = GROUP_BYTES_MAX - self._bytes if self._batches else None
        if self._batches and self._records + batch.header.record_count > GROUP_RECORDS_MAX:
            return False
        payload = self._unpacker.take(batch, bytes_max)
        if payload is None:
            return False
        self._batches.append((batch, payload))
        self._bytes += len(payload)
        self._records += batch.header.record_count
        return True

    def columns(self) -> Iterator[Columns]:
        """Decode the group, if it has rows, and empty it. Raises :class:`CorruptBatchError`."""
        if self._batches:
            columns = decode_group(self._batches, *self._range, self._wanted)
            self._batches, self._bytes, self._records = [], 0, 0
            self._unpacker.clear()
            yield from _filled(columns)


def _filled(columns: Columns) -> Iterator[Columns]:
    if len(columns):
        yield columns


def _offsets_of(batch: BatchView, start: int, end: int) -> Iterator[Columns]:
    """Columns of one batch without gaps, made from its header alone."""
    header = batch.header
    first, after = max(header.base_offset, start), min(header.next_offset, end)
    rows = after - first
    if rows > 0:
        yield Columns(
            np.arange(first, after, dtype=np.int64),
            np.zeros(rows, np.int64),
            np.full(rows, header.is_log_append_time, np.uint8),
            Binary.nothing(rows),
            Binary.nothing(rows),
            None,
        )


class _Room:
    """Columns to be filled with at most `rows` rows, whose keys, and whose values, have at most `size`
    bytes."""

    def __init__(self, rows: int, size: int, wanted: frozenset[str]) -> None:
        self._offsets = np.empty(rows, np.int64)
        self._timestamps = np.empty(rows, np.int64)
        self._append_time = np.empty(rows, np.uint8)
        self._keys = Binary.empty(rows, size if KEY in wanted else 0)
        self._values = Binary.empty(rows, size if VALUE in wanted else 0)
        self.header_starts = np.empty(rows, np.int64)
        self.header_counts = np.empty(rows, np.int32)
        self._copied = (kernels.KEYS if KEY in wanted else 0) | (
            kernels.VALUES if VALUE in wanted else 0
        )

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The columns as the last arguments of the compiled loops, in their order."""
        keys, values = self._keys, self._values
        return (
            self._offsets, self._timestamps, self._append_time, keys.ends, keys.valid, keys.data,
            values.ends, values.valid, values.data, self.header_starts, self.header_counts, self._copied,
        )  # fmt: skip

    def columns(self, rows: int, headers: Headers | None) -> Columns:
        """The first `rows` rows."""
        return Columns(
            self._offsets[:rows],
            self._timestamps[:rows],
            self._append_time[:rows],
            self._keys.cut(rows),
            self._values.cut(rows),
            headers,
        )


def decode_group(
    group: Sequence[tuple[BatchView, kernels.Bytes]], start: int, end: int, wanted: frozenset[str]
) -> Columns:
    """Decode batches with their uncompressed sections. Raises :class:`CorruptBatchError`."""
    rows = sum(batch.header.record_count for batch, _ in group)
    room = _Room(rows, sum(len(payload) for _, payload in group), wanted)
    offsets, timestamps, append_time, *arrays = room.arrays
    firsts = []
    row = 0
    for batch, payload in group:
        header = batch.header
        firsts.append(row)
        by_broker = header.is_log_append_time
        next_row, status = kernels.decode_records(
            payload, header.record_count, header.base_offset, header.base_timestamp,
            header.max_timestamp if by_broker else -1, start, end, row, offsets, timestamps,
            *arrays,
        )  # fmt: skip
        if status != kernels.OK:
            raise CorruptBatchError(batch.position, "its records are malformed")
        append_time[row:next_row] = by_broker
        row = next_row
    headers = None
    if HEADERS in wanted:
        spans = list(
            zip([payload for _, payload in group], firsts, [*firsts[1:], row], strict=True)
        )
        headers = decode_group_headers(spans, room.header_starts, room.header_counts[:row])
    return room.columns(row, headers)


def decode_group_headers(
    spans: Sequence[tuple[kernels.Bytes, int, int]],
    header_starts: kernels.Longs,
    header_counts: kernels.Ints,
) -> Headers:
    """Decode the headers of the rows that `decode_group` decoded; `spans` are (section, first row, row
    after the last) of each batch."""
    rows = len(header_counts)
    ends: npt.NDArray[np.int32] = np.zeros(rows + 1, np.int32)
    np.cumsum(header_counts, out=ends[1:])
    items = int(ends[-1])
    size = sum(len(payload) for payload, _, _ in spans) if items else 0
    keys, values = Binary.empty(items, size), Binary.empty(items, size)
    keys.valid[:] = 1
    item = 0
    for payload, first, after in spans:
        item = kernels.decode_headers(
            payload, first, after, header_starts, header_counts, item,
            keys.ends, keys.data, values.ends, values.valid, values.data,
        )  # fmt: skip
    return Headers(ends, keys.cut(items), values.cut(items))
