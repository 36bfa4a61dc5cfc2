"""Cutting an encoded batch into smaller ones, for a topic that does not take it as it is.

Owns the way back from a batch's bytes to rows and forth to batches by the options of now: a batch that
a manifest names is bound to its rows, not to its size. Records keep key, value, headers, timestamp and
order. Works on one batch at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from barnabas.pipeline.write.batch_encoder import BatchEncoder, EncodedBatch
from barnabas.record.batch import iterate
from barnabas.record.columnar import decode

if TYPE_CHECKING:
    from barnabas.pipeline.options import SinkOptions
    from barnabas.types import TopicPartition

HEADERS = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
ROWS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
    ]
)


class Whole(Protocol):
    """A batch that is there already, as a publisher has it."""

    @property
    def partition(self) -> TopicPartition: ...
    @property
    def records(self) -> int: ...
    def load(self) -> bytearray: ...


def recut(options: SinkOptions, batch: Whole) -> list[EncodedBatch]:
    """The rows of `batch` in batches of at most the present ``kafka.batch.size``."""
    data = batch.load()
    (whole,) = iterate(data)
    topic, partition = batch.partition
    encoder = BatchEncoder(
        options, lambda _: partition + 1, wall_ms=whole.header.base_timestamp, turn=0
    )
    pieces: list[EncodedBatch] = []
    run = decode(data, 0, batch.records, include_headers=True, check_crc=False)
    for columns in run.columns:
        rows = columns.to_arrow(topic, partition, ROWS)
        pieces += encoder.encode(rows)
    assert sum(piece.records for piece in pieces) == batch.records
    return pieces


def largest_record(options: SinkOptions, batch: Whole) -> int:
    """The size of the largest record of `batch`, in a batch of its own."""
    alone = recut(replace(options, batch_bytes_max=1), batch)
    return max(len(piece.data) for piece in alone)
