"""What a client may and may not append, and what is rewritten on the way."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.record.batch import (
    CRC_FROM,
    HEADER_SIZE,
    iterate,
    read_header,
    seal,
    write_header,
)
from barnabas.record.builder import build_batch, end_transaction_marker, write_record
from barnabas.record.compression import Codec, compress
from barnabas.record.decode import records_of
from barnabas.record.validate import InvalidRecordsError, ValidationRules, validate
from barnabas.wire.errors import ErrorCode, KafkaError

NOW = 1_750_000_000_000
RULES = ValidationRules(max_message_bytes=10_000)


def batch(**changes: Any) -> bytearray:
    given = {"timestamp_ms": NOW, **changes}
    return bytearray(build_batch([(b"k", b"v"), (b"l", b"w")], **given))


def refused(data: bytes | bytearray, rules: ValidationRules = RULES) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        validate(memoryview(data), rules, NOW)
    return caught.value


def patched(position: int, content: bytes, *, sealed: bool = True) -> bytearray:
    data = batch()
    data[position : position + len(content)] = content
    if sealed and position >= CRC_FROM:
        seal(data)
    return data


def test_a_good_batch_passes_as_it_is() -> None:
    data = batch()
    found = validate(memoryview(data), RULES, NOW)
    assert found.data.obj is data and found.header == read_header(data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (patched(60, b"\x05", sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(16, b"\x01"), ErrorCode.INVALID_RECORD),
        (patched(16, b"\x07"), ErrorCode.CORRUPT_MESSAGE),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch(base_offset=4), ErrorCode.INVALID_RECORD),
        (patched(57, b"\0\0\0\x09"), ErrorCode.INVALID_RECORD),
        (patched(57, b"\0\0\0\0"), ErrorCode.INVALID_RECORD),
        (patched(57, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (patched(23, b"\xff\xff\xff\xfe"), ErrorCode.INVALID_RECORD),
        (patched(21, b"\x00\x20"), ErrorCode.INVALID_RECORD),
        (patched(21, b"\x00\x40"), ErrorCode.INVALID_RECORD),
        (patched(21, b"\x00\x06"), ErrorCode.INVALID_RECORD),
        (batch(log_append_time=True), ErrorCode.INVALID_TIMESTAMP),
        (batch(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (batch(transactional=True), ErrorCode.INVALID_RECORD),
        (batch(timestamp_ms=NOW + 10_000_000_000), None),
        (b"\xff" * 100, ErrorCode.CORRUPT_MESSAGE),
        (bytes(100), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_each_invalid_batch_has_its_error_code(data: bytes, code: ErrorCode | None) -> None:
    if code is None:
        validate(memoryview(data), RULES, NOW)
    else:
        assert refused(data).code == code


def test_markers_of_clients_are_refused() -> None:
    marker = end_transaction_marker(
        commit=True, timestamp_ms=NOW, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    assert refused(marker).code == ErrorCode.INVALID_RECORD


def test_a_batch_that_is_too_large() -> None:
    data = build_batch([(None, b"x" * 10_000)], timestamp_ms=NOW)
    assert refused(data).code == ErrorCode.MESSAGE_TOO_LARGE
    packed = build_batch([(None, b"x" * 20_000)], timestamp_ms=NOW, codec=Codec.ZSTD)
    plain = RULES._replace(compression_type="uncompressed")
    assert refused(packed, plain).code == ErrorCode.MESSAGE_TOO_LARGE
    damaged = data[:-1] + b"y"
    assert refused(damaged).code == ErrorCode.MESSAGE_TOO_LARGE, "its CRC is not looked at"


def test_compacted_topics_name_each_record_without_a_key() -> None:
    data = build_batch([(b"k", b"v"), (None, b"w"), (None, b"x")], timestamp_ms=NOW)
    error = refused(data, RULES._replace(compact=True))
    assert isinstance(error, InvalidRecordsError)
    assert [record.batch_index for record in error.records] == [1, 2]


def test_timestamps_out_of_bounds_name_their_records() -> None:
    records = [(b"k", b"v", (), NOW), (b"k", b"v", (), NOW + 5000), (b"k", b"v", (), NOW - 5000)]
    data = build_batch(records, timestamp_ms=NOW)
    late = refused(data, RULES._replace(after_max_ms=1000))
    early = refused(data, RULES._replace(before_max_ms=1000))
    assert isinstance(late, InvalidRecordsError) and isinstance(early, InvalidRecordsError)
    assert (late.code, [r.batch_index for r in late.records]) == (ErrorCode.INVALID_TIMESTAMP, [1])
    assert (early.code, [r.batch_index for r in early.records]) == (
        ErrorCode.INVALID_TIMESTAMP,
        [2],
    )


@pytest.mark.parametrize("changes", [{"compact": True}, {"compression_type": "gzip"}])
def test_a_timestamp_beyond_all_that_can_be_said_is_refused(changes: dict[str, Any]) -> None:
    """A record's delta may say it, while the header's largest timestamp does not."""
    body = bytearray()
    write_record(body, 0, 0, b"k", b"v")
    write_record(body, 1, (1 << 63) - 1, b"k", b"v")
    data = bytearray(HEADER_SIZE) + body
    header = read_header(batch())
    write_header(data, header)
    error = refused(data, RULES._replace(**changes))
    assert isinstance(error, InvalidRecordsError)
    assert (error.code, [r.batch_index for r in error.records]) == (
        ErrorCode.INVALID_TIMESTAMP,
        [1],
    )


def test_a_headers_name_may_be_any_bytes() -> None:
    """As in Kafka: neither the broker nor compaction reads it, and a reader gets what Java's gets."""
    data = bytearray(build_batch([(b"k", b"v", (("name", b"x"),))], timestamp_ms=NOW))
    at = data.index(b"name")
    data[at : at + 4] = b"n\xe4me"
    seal(data)
    found = validate(memoryview(data), RULES._replace(compact=True), NOW)
    (kept,) = iterate(found.data)
    assert [record.headers for record in records_of(kept)] == [(("n\ufffdme", b"x"),)]


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("given", list(Codec))
def test_another_codec_is_written_where_the_topic_asks(given: Codec, wanted: str) -> None:
    data = batch(codec=given, producer_id=3, producer_epoch=1, base_sequence=7)
    found = validate(memoryview(data), RULES._replace(compression_type=wanted), NOW)
    (view,) = iterate(found.data, crc=True, partial_tail=False)
    name = "uncompressed" if view.header.codec == 0 else Codec(view.header.codec).name.lower()
    assert name == wanted
    assert (view.header.producer_id, view.header.base_sequence) == (3, 7)
    assert [(r.key, r.value) for r in records_of(view)] == [(b"k", b"v"), (b"l", b"w")]


@pytest.mark.parametrize("wanted", ["producer", "gzip"])
def test_the_log_gives_its_own_time(wanted: str) -> None:
    rules = RULES._replace(log_append_time=True, compression_type=wanted)
    found = validate(memoryview(batch(timestamp_ms=5)), rules, NOW)
    (view,) = iterate(found.data, crc=True, partial_tail=False)
    assert view.header.is_log_append_time and view.header.max_timestamp == NOW
    assert {r.timestamp for r in records_of(view)} == {NOW}


def test_records_that_lie_are_refused_where_they_are_walked() -> None:
    data = batch()
    data[61] ^= 0x55
    seal(data)
    for rules in (RULES._replace(compact=True), RULES._replace(compression_type="gzip")):
        assert refused(data, rules).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("rules", [RULES._replace(compact=True), RULES._replace(after_max_ms=1000)])
def test_a_header_that_lies_about_its_largest_timestamp_is_put_right(
    rules: ValidationRules,
) -> None:
    data = patched(35, (NOW + 10_000_000).to_bytes(8, "big"))
    found = validate(memoryview(data), rules, NOW)
    (view,) = iterate(found.data, crc=True, partial_tail=False)
    assert view.header.max_timestamp == NOW
    assert [r.key for r in records_of(view)] == [b"k", b"l"]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_count_that_no_bytes_could_hold_is_refused(codec: Codec) -> None:
    """It would use up as many offsets, for records that no client can read."""
    data = batch(codec=codec)
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    data[23:27] = (2**31 - 2).to_bytes(4, "big")
    seal(data)
    error = refused(data)
    assert error.code == ErrorCode.INVALID_RECORD
    assert "have no room for" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_small_batch_that_unpacks_to_very_much_is_refused(codec: Codec) -> None:
    """Where records are looked at: 33 kB of zstd took 2 GB and 3.6 s of everybody's time before."""
    data = bytearray(batch(codec=codec)[:61]) + compress(codec, bytes(65 << 20))
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    seal(data)
    error = refused(data, ValidationRules(max_message_bytes=1_048_588, compact=True))
    assert error.code == ErrorCode.INVALID_RECORD
    assert "unpacks to more than" in str(error)
    error = refused(data, ValidationRules(max_message_bytes=70 << 20, compact=True))
    assert "its fields do not fit" in str(error)  # unpacked, as messages may have this size


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_record_of_a_compressed_batch_is_no_larger_than_the_topic_allows(codec: Codec) -> None:
    """Kafka measures what it decompresses. The size is that of the record's body: attributes, two deltas,
    null for the key, the value behind its length, the number of headers."""
    body = 1 + 1 + 1 + 1 + 2 + 100 + 1
    data = build_batch([(None, bytes(100))], timestamp_ms=NOW, codec=codec)
    validate(memoryview(data), RULES._replace(record_bytes_max=body), NOW)
    below = RULES._replace(record_bytes_max=body - 1)
    if codec is Codec.NONE:
        validate(memoryview(data), below, NOW)
        return
    error = refused(data, below)
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, InvalidRecordsError)
    assert [record.batch_index for record in error.records] == [0]
