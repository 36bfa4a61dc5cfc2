"""Rows of a DataFrame → record batches per partition, in an executor, without Python per row.

Takes the columns of Spark's Kafka connector (``key``, ``value``, ``topic``, ``partition``, ``headers``) and
``timestamp``, the record's CreateTime. Chooses each row's partition as Kafka's default partitioner does
(murmur2 of the key; in turn where there is none), and writes whole batches, compressed, without producer
identity: the publisher sets that later (:func:`barnabas.record.batch.stamp_producer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipeline.errors import WriteRefusedError
from barnabas.pipeline.formats.writing.encoding import BadRowError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.speed import warn_if_interpreted
from barnabas.record import columnar_kernels as kernels
from barnabas.record.batch import HEADER_SIZE, BatchHeader, write_header
from barnabas.record.compression import compress
from barnabas.types import TopicPartition

RECORD_OVERHEAD_MAX = 80
"""Bytes of a record beside key, value and headers: nine varints and the attributes."""


class EncodedBatch(NamedTuple):
    """One whole batch for one partition."""

    partition: TopicPartition
    records: int
    data: bytearray


@dataclass(slots=True)
class BytesColumn:
    """A binary or string column as arrays; ``ends`` (rows + 1) are positions in ``data``."""

    ends: kernels.Ints
    valid: kernels.Bytes
    data: kernels.Bytes

    @classmethod
    def of(cls, column: Any, rows: int) -> BytesColumn:
        """The buffers of `column`, not copied. `column` is None or of type null if all values are null."""
        if column is None or pa.types.is_null(column.type):
            return cls.frozen(
                np.zeros(rows + 1, np.int32), np.zeros(rows, np.uint8), np.empty(0, np.uint8)
            )
        if column.type not in (pa.binary(), pa.string()):
            column = column.cast(pa.binary())
        _, ends, data = column.buffers()
        begin = column.offset
        return cls.frozen(
            np.frombuffer(ends, np.int32)[begin : begin + rows + 1]
            if rows
            else np.zeros(1, np.int32),
            valid_of(column),
            np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
        )

    @classmethod
    def frozen(cls, ends: kernels.Ints, valid: kernels.Bytes, data: kernels.Bytes) -> BytesColumn:
        return cls(kernels.frozen(ends), kernels.frozen(valid), kernels.frozen(data))

    @property
    def size(self) -> int:
        return int(self.ends[-1]) - int(self.ends[0])


@dataclass(slots=True)
class HeadersColumn:
    """All headers of the rows end to end; ``ends`` are positions in `keys` and `values`."""

    ends: kernels.Ints
    keys: BytesColumn
    values: BytesColumn

    @classmethod
    def of(cls, column: Any, rows: int) -> HeadersColumn:
        if column is None or not rows:
            none = BytesColumn.of(None, 0)
            return cls(kernels.frozen(np.zeros(rows + 1, np.int32)), none, none)
        items = column.values
        begin = column.offset
        ends = np.frombuffer(column.buffers()[1], np.int32)[begin : begin + rows + 1]
        if column.null_count:
            # A null list may span items all the same; only lists that are there count.
            column = pa.array(column.to_pylist(), column.type)
            return cls.of(pc.fill_null(column, []), rows)
        keys, values = items.field(0), items.field(1)
        if keys.null_count:
            raise WriteRefusedError("a header has no key")
        return cls(
            kernels.frozen(ends),
            BytesColumn.of(keys, len(items)),
            BytesColumn.of(values, len(items)),
        )


def valid_of(column: Any) -> kernels.Bytes:
    """1 where a value is there, 0 where it is null."""
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    flags: kernels.Bytes = np.asarray(column.is_valid()).astype(np.uint8)
    return flags


class BatchEncoder:
    """Encodes one task's rows. `partitions_of` says how many partitions a topic has."""

    def __init__(
        self, options: SinkOptions, partitions_of: Callable[[str], int], *, wall_ms: int, turn: int
    ) -> None:
        """`turn` is where the round robin of rows without a key begins; it differs between tasks so that they
        spread. `wall_ms` (since 1970) is the timestamp of rows without one."""
        self._options = options
        self._partitions_of = partitions_of
        self._wall_ms = wall_ms
        self._turn = turn
        self._counts: dict[str, int] = {}
        self._task, self._rows = turn, 0
        schema = options.writer_schema
        self._value_encoder = None if schema is None else schema.encoder()
        warn_if_interpreted()

    def encode(self, rows: Any) -> Iterator[EncodedBatch]:
        """Batches of one Arrow batch's rows. Raises `WriteRefusedError`."""
        size = rows.num_rows
        if not size:
            return
        columns = {name.lower(): rows.column(name) for name in rows.schema.names}
        names, topic_of = self._topics(columns, size)
        keys = BytesColumn.of(columns.get("key"), size)
        values = BytesColumn.of(self._encoded(columns["value"]), size)
        headers = HeadersColumn.of(columns.get("headers"), size)
        stamps = self._stamps(columns.get("timestamp"))
        counts = np.array([self._count(name) for name in names], np.int32)
        partitions = self._partitions(columns.get("partition"), counts[topic_of], names, topic_of)
        kernels.assign_partitions(
            partitions, counts[topic_of], self._turn, keys.ends, keys.valid, keys.data
        )
        self._turn += size
        self._rows += size
        target = topic_of.astype(np.int64) << 32 | partitions
        order = kernels.frozen(np.argsort(target, kind="stable").astype(np.int64))
        edges = np.flatnonzero(np.diff(target[order])) + 1
        for group in np.split(order, edges):
            first = int(group[0])
            partition = TopicPartition(names[int(topic_of[first])], int(partitions[first]))
            for count, data in self._batches(group, keys, values, headers, stamps):
                yield EncodedBatch(partition, count, data)

    def _encoded(self, column: Any) -> Any:
        """Values as bytes. Raises `WriteRefusedError`, which names row and column."""
        if self._value_encoder is None:
            return column
        try:
            return self._value_encoder(column)
        except BadRowError as error:
            row = self._rows + error.row
            raise WriteRefusedError(f"row {row} of task {self._task}: {error}") from error

    def _topics(self, columns: Mapping[str, Any], size: int) -> tuple[list[str], kernels.Ints]:
        if self._options.topic is not None:
            return [self._options.topic], np.zeros(size, np.int32)
        coded = columns["topic"].dictionary_encode()
        if coded.indices.null_count:
            raise WriteRefusedError("a row has no topic: column topic is null")
        return coded.dictionary.to_pylist(), np.asarray(coded.indices).astype(np.int32)

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            self._counts[topic] = self._partitions_of(topic)
        return self._counts[topic]

    def _partitions(
        self, column: Any, counts: kernels.Ints, names: Sequence[str], topic_of: kernels.Ints
    ) -> kernels.Ints:
        """Given partitions, -1 where none is given."""
        if column is None:
            return np.full(len(topic_of), -1, np.int32)
        given: kernels.Ints = np.asarray(pc.fill_null(column, -1)).astype(np.int32)
        there = np.asarray(column.is_valid())
        wrong = np.flatnonzero(there & ((given < 0) | (given >= counts)))
        if len(wrong):
            row = int(wrong[0])
            raise WriteRefusedError(
                f"a row goes to partition {given[row]}, topic {names[int(topic_of[row])]!r} has"
                f" {counts[row]}"
            )
        return given

    def _batches(
        self,
        rows: kernels.Longs,
        keys: BytesColumn,
        values: BytesColumn,
        headers: HeadersColumn,
        stamps: kernels.Longs,
    ) -> Iterator[tuple[int, bytearray]]:
        """Cut one partition's rows into batches of at most the configured size."""
        limit = self._options.batch_bytes_max
        sizes = np.diff(keys.ends)[rows] + np.diff(values.ends)[rows]
        largest = int(sizes.max()) + headers.keys.size + headers.values.size
        items = int(headers.ends[-1] - headers.ends[0])
        scratch = np.empty(max(limit, largest + RECORD_OVERHEAD_MAX + 10 * items), np.uint8)
        at = 0
        while at < len(rows):
            after, used = kernels.encode_records(
                scratch, rows, at, limit, stamps, keys.ends, keys.valid, keys.data,
                values.ends, values.valid, values.data, headers.ends,
                headers.keys.ends, headers.keys.data,
                headers.values.ends, headers.values.valid, headers.values.data,
            )  # fmt: skip
            own = stamps[rows[at:after]] if len(stamps) else None
            yield after - at, self._whole(memoryview(scratch.data)[:used], after - at, own)
            at = after

    def _stamps(self, column: Any) -> kernels.Longs:
        """Timestamps of rows in ms, the task's own for a null; none where there is no such column."""
        if column is None:
            return kernels.frozen(np.empty(0, np.int64))
        numbers = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", "UTC"))
        filled = pc.fill_null(numbers.cast(pa.int64()), self._wall_ms)
        return kernels.frozen(np.array(filled, np.int64))

    def _whole(
        self, records: memoryview, count: int, stamps: kernels.Longs | None = None
    ) -> bytearray:
        codec = self._options.codec
        section = compress(codec, records) if codec else records
        data = bytearray(HEADER_SIZE + len(section))
        data[HEADER_SIZE:] = section
        header = BatchHeader(
            base_offset=0, length=0, leader_epoch=-1, magic=2, crc=0, attributes=codec,
            last_offset_delta=count - 1,
            base_timestamp=self._wall_ms if stamps is None else int(stamps[0]),
            max_timestamp=self._wall_ms if stamps is None else int(stamps.max()),
            producer_id=-1, producer_epoch=-1, base_sequence=-1,
            record_count=count,
        )  # fmt: skip
        write_header(data, header)
        return data
