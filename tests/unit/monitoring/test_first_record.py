"""The timestamp of the first record at or after an offset."""

from __future__ import annotations

import pytest

from barnabas.monitoring.lag.first_record import FirstRecord, first_record
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.compression import Codec


def batch(
    base_offset: int, *timestamps: int, codec: int = Codec.NONE, log_append_time: bool = False
) -> bytes:
    records = [(None, b"v", (), timestamp) for timestamp in timestamps]
    return build_batch(
        records,
        timestamp_ms=9_000,
        base_offset=base_offset,
        codec=codec,
        log_append_time=log_append_time,
    )


def marker(base_offset: int) -> bytes:
    found = bytearray(
        end_transaction_marker(
            commit=True, timestamp_ms=50, producer_id=7, producer_epoch=0, coordinator_epoch=0
        )
    )
    found[:8] = base_offset.to_bytes(8, "big")
    return bytes(found)


def test_a_batch_that_begins_at_the_offset_tells_by_its_header() -> None:
    assert first_record(batch(10, 100, 200), 10) == FirstRecord(100, 12)


def test_an_offset_inside_a_batch_has_its_own_records_timestamp() -> None:
    for codec in (Codec.NONE, Codec.ZSTD):
        assert first_record(batch(10, 100, 200, 900, codec=codec), 11) == FirstRecord(200, 13)


def test_a_batch_that_unpacks_too_far_tells_by_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = batch(10, 100, 200, 900, codec=Codec.ZSTD)
    monkeypatch.setattr("barnabas.monitoring.lag.first_record.DECOMPRESSED_BYTES_MAX", 8)
    assert first_record(packed, 11) == FirstRecord(100, 13)


def test_a_topic_with_log_append_time_tells_by_its_header() -> None:
    assert first_record(batch(10, 100, 200, log_append_time=True), 11) == FirstRecord(200, 12)


def test_markers_of_transactions_are_no_records_to_read() -> None:
    assert first_record(marker(4) + batch(5, 300), 4) == FirstRecord(300, 6)
    assert first_record(marker(4), 4) == FirstRecord(None, 5)


def test_batches_before_the_offset_and_broken_ends_tell_nothing() -> None:
    run = batch(0, 1, 2) + batch(2, 3)[:-1]
    assert first_record(run, 2) == FirstRecord(None, 2)
    assert first_record(b"", 2) == FirstRecord(None, 2)


def test_an_offset_that_compaction_removed_gets_the_next_record() -> None:
    compacted = build_batch(
        [(b"a", b"v", (), 100), (b"b", b"v", (), 400)],
        timestamp_ms=9_000,
        base_offset=10,
        offset_deltas=[0, 5],
    )
    assert first_record(compacted, 12) == FirstRecord(400, 16)
