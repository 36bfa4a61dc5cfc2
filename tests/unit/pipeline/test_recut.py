"""A batch cut into smaller ones has the same records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.options import CODECS, ClusterOptions, SinkOptions
from barnabas.pipeline.write.batch_encoder import BatchEncoder
from barnabas.pipeline.write.publisher import Outgoing
from barnabas.pipeline.write.recut import HEADERS, ROWS, recut
from barnabas.record.batch import iterate
from barnabas.record.columnar import decode
from barnabas.types import TopicPartition


def records_of(batches: list[bytearray]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for data in batches:
        for columns in decode(data, 0, 1 << 40, include_headers=True).columns:
            found += columns.to_arrow("t", 2, ROWS).to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_pieces_of_a_batch_have_its_records(codec: str) -> None:
    large = SinkOptions(ClusterOptions(()), topic="t", codec=CODECS[codec], batch_bytes_max=1 << 20)
    headers = [[{"key": "h", "value": b"x"}, {"key": "n", "value": None}], None, []]
    rows = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None if n % 5 == 0 else b"k%d" % n for n in range(300)]),
            "value": pa.array([None if n % 7 == 0 else b"v" * n for n in range(300)]),
            "headers": pa.array([headers[n % 3] for n in range(300)], HEADERS),
            "partition": pa.array([2] * 300, pa.int32()),
        }
    )
    (whole,) = BatchEncoder(large, lambda _: 3, wall_ms=1234567, turn=0).encode(rows)
    outgoing = Outgoing(
        TopicPartition("t", 2), 40, 300, len(whole.data), lambda: bytearray(whole.data)
    )
    small = SinkOptions(ClusterOptions(()), topic="t", codec=CODECS[codec], batch_bytes_max=500)
    pieces = recut(small, outgoing)
    assert len(pieces) > 50
    assert {each.partition for each in pieces} == {TopicPartition("t", 2)}
    assert records_of([each.data for each in pieces]) == records_of([whole.data])
    for each in pieces:
        (batch,) = iterate(each.data, crc=False)
        assert batch.header.base_timestamp == batch.header.max_timestamp == 1234567
    assert [each.data for each in recut(large, outgoing)] == [whole.data]
