"""A batch with a right CRC whose records are not what its header says stops no reader."""

from __future__ import annotations

import pytest

from barnabas.client.consumers.fetch_requests import FetchedRun
from barnabas.record.batch import HEADER_SIZE, CorruptBatchError, seal
from barnabas.record.builder import build_batch
from barnabas.record.compression import Codec
from barnabas.types import TopicPartition
from barnabas.wire.messages.fetch_response import PartitionData


def lying(claimed: int, codec: Codec = Codec.NONE) -> bytes:
    """Three records that are said to be `claimed`."""
    data = bytearray(
        build_batch([(None, b"%d" % at) for at in range(3)], timestamp_ms=1, codec=codec)
    )
    data[23:27] = (claimed - 1).to_bytes(4, "big")
    data[57:61] = claimed.to_bytes(4, "big")
    seal(data)
    return bytes(data)


def run_of(*batches: bytes) -> FetchedRun:
    told = PartitionData(partition_index=0, records=memoryview(b"".join(batches)))
    return FetchedRun(TopicPartition("t", 0), 0, told, False)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("claimed", [2, 5])
def test_present_records_are_read_and_missing_ones_skipped(claimed: int, codec: Codec) -> None:
    good = build_batch([(None, b"good")], timestamp_ms=1, base_offset=claimed)
    run = run_of(lying(claimed, codec), good)
    found = [(record.offset, record.value) for record in run.records(0)]
    assert found == [(at, b"%d" % at) for at in range(min(claimed, 3))] + [(claimed, b"good")]
    assert list(run.faults) == [0] and run.next_offset == claimed + 1


def test_bytes_that_no_codec_made_are_passed_over() -> None:
    data = bytearray(lying(3, Codec.ZSTD))
    data[HEADER_SIZE : HEADER_SIZE + 4] = b"junk"
    seal(data)
    good = build_batch([(None, b"good")], timestamp_ms=1, base_offset=3)
    run = run_of(bytes(data), good)
    assert [record.value for record in run.records(0)] == [b"good"] and run.faults


def test_a_batch_that_was_damaged_is_asked_for_again() -> None:
    data = bytearray(lying(3))
    data[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        list(run_of(bytes(data)).records(0))
