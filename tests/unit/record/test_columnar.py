"""Columns hold what the plain decoder reads, of every codec, and never a guess of bad bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.record import columnar, unpacking
from barnabas.record.batch import (
    HEADER_SIZE,
    BatchView,
    CorruptBatchError,
    iterate,
    seal,
    write_header,
)
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.columnar import AbortedTransaction, DecodedRecords, decode
from barnabas.record.compression import Codec
from barnabas.record.decode import records_in
from barnabas.record.unpacking import Unpacker
from tests.effort import examples

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)

maybe_bytes = st.none() | st.binary(max_size=40)
record = st.tuples(
    maybe_bytes,
    maybe_bytes,
    st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    st.integers(0, 1 << 41),
)


def rows(run: DecodedRecords) -> list[dict[str, Any]]:
    batches = [each.to_arrow("t", 3, SCHEMA) for each in run.columns]
    table = pa.Table.from_batches(batches, SCHEMA)
    table.validate(full=True)
    found: list[dict[str, Any]] = table.set_column(
        5, "timestamp", table["timestamp"].cast(pa.int64())
    ).to_pylist()
    return found


def as_rows(run: bytes) -> list[dict[str, Any]]:
    """The same by the decoder that makes an object per record."""
    return [
        {
            "key": each.key,
            "value": each.value,
            "topic": "t",
            "partition": 3,
            "offset": each.offset,
            "timestamp": each.timestamp * 1000,
            "timestampType": 0,
            "headers": [{"key": k, "value": v} for k, v in each.headers] or None,
        }
        for each in records_in(run)
    ]


def batch(count: int, base_offset: int = 0, **options: Any) -> bytes:
    records: Sequence[Any] = [(b"k%d" % n, b"v%d" % n) for n in range(count)]
    return build_batch(records, timestamp_ms=1000, base_offset=base_offset, **options)


def values(run: DecodedRecords) -> list[bytes]:
    return [each["value"] for each in rows(run)]


@settings(max_examples=examples(60))
@given(st.lists(st.lists(record, min_size=1, max_size=8), max_size=4), st.sampled_from(Codec))
def test_columns_equal_plain_records(batches: list[list[Any]], codec: Codec) -> None:
    run, offset = b"", 7
    for records in batches:
        run += build_batch(records, timestamp_ms=5, base_offset=offset, codec=codec)
        offset += len(records)
    decoded = decode(run, 0, 1 << 62, include_headers=True)
    assert rows(decoded) == as_rows(run)
    assert decoded.rows == offset - 7
    assert decoded.next_offset == (offset if batches else 0)


def test_only_the_asked_range_gives_rows() -> None:
    run = batch(10, 0) + batch(10, 10) + batch(10, 20)
    decoded = decode(run, 5, 15)
    assert [each["offset"] for each in rows(decoded)] == list(range(5, 15))
    assert decoded.next_offset == 20
    assert decode(run, 5, 10).next_offset == 10


def test_a_cut_off_batch_is_left_for_the_next_fetch() -> None:
    run = batch(3, 0) + batch(3, 3)
    for cut in range(1, len(batch(3))):
        decoded = decode(run[:-cut], 0, 100)
        assert decoded.next_offset == 3 and decoded.rows == 3


def test_gaps_of_compaction_are_kept() -> None:
    run = build_batch([(b"a", b"1"), (b"b", b"2")], timestamp_ms=1, offset_deltas=[2, 9])
    decoded = decode(run, 0, 100)
    assert [each["offset"] for each in rows(decoded)] == [2, 9]
    assert decoded.next_offset == 10


def test_the_brokers_time_replaces_the_producers() -> None:
    run = build_batch(
        [(None, b"a", (), 10), (None, b"b", (), 99)], timestamp_ms=1, log_append_time=True
    )
    found = rows(decode(run, 0, 100))
    assert [each["timestamp"] for each in found] == [99_000, 99_000]
    assert [each["timestampType"] for each in found] == [1, 1]


def test_control_batches_give_no_rows() -> None:
    marker = end_transaction_marker(
        commit=True, timestamp_ms=1, producer_id=5, producer_epoch=0, coordinator_epoch=0
    )
    run = batch(2, 0) + at(marker, 2) + batch(1, 3)
    decoded = decode(run, 0, 100)
    assert [each["offset"] for each in rows(decoded)] == [0, 1, 3]
    assert decoded.next_offset == 4


def at(whole: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + whole[8:]


def transactional(offset: int, producer_id: int, value: bytes) -> bytes:
    return build_batch(
        [(None, value)], timestamp_ms=1, base_offset=offset, producer_id=producer_id,
        producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return at(
        end_transaction_marker(
            commit=commit, timestamp_ms=1, producer_id=producer_id, producer_epoch=0,
            coordinator_epoch=0,
        ),
        offset,
    )  # fmt: skip


def test_aborted_transactions_are_left_out_until_their_marker() -> None:
    run = b"".join(
        [
            transactional(0, 1, b"aborted"),
            transactional(1, 2, b"committed"),
            marker(2, 1, commit=False),
            transactional(3, 1, b"later"),
            marker(4, 2, commit=True),
            marker(5, 1, commit=True),
            batch(1, 6),
        ]
    )
    seen = decode(run, 0, 100, aborted=[AbortedTransaction(1, 0)])
    assert values(seen) == [b"committed", b"later", b"v0"]
    assert values(decode(run, 0, 100)) == [b"aborted", b"committed", b"later", b"v0"]
    assert seen.next_offset == 7


def test_a_marker_that_compaction_has_emptied_says_nothing() -> None:
    emptied = bytearray(marker(1, 1, commit=True)[:HEADER_SIZE])
    header = next(iterate(marker(1, 1, commit=True))).header
    write_header(emptied, header._replace(length=HEADER_SIZE - 12, record_count=0))
    run = transactional(0, 1, b"seen") + bytes(emptied) + batch(1, 2)
    assert values(decode(run, 0, 100, aborted=[])) == [b"seen", b"v0"]


def test_large_runs_are_cut_into_several_arrow_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.record.columnar.GROUP_RECORDS_MAX", 10)
    monkeypatch.setattr("barnabas.record.columnar.SMALL_BYTES", 0)
    run = b"".join(batch(4, 4 * n) for n in range(6))
    decoded = decode(run, 0, 100)
    assert [len(each) for each in decoded.columns] == [8, 8, 8]
    assert rows(decoded) == as_rows(run)


def test_a_wrong_crc_is_an_error() -> None:
    run = bytearray(batch(3))
    run[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        decode(bytes(run), 0, 100)
    with pytest.raises(CorruptBatchError):
        decode(b"\x00" * 16 + b"\x01" + b"\x00" * 60, 0, 100)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_damage_below_the_crc_gives_an_error_or_rows_and_nothing_else(codec: Codec) -> None:
    random_ = random.Random(17)
    whole = batch(20, codec=codec)
    for _ in range(400):
        run = bytearray(whole)
        for _ in range(random_.randint(1, 3)):
            run[random_.randrange(61, len(run))] = random_.getrandbits(8)
        seal(run)
        try:
            decoded = decode(bytes(run), 0, 100, include_headers=True)
        except CorruptBatchError:
            continue
        assert decoded.rows <= 20


def test_interpreted_loops_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs where numba is not installed: the same functions, uncompiled."""
    import importlib
    import sys

    from barnabas.record import columnar_kernels

    run = batch(30) + build_batch([(None, None, (("h", None),))], timestamp_ms=1, base_offset=30)
    compiled = rows(decode(run, 0, 100, include_headers=True))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "numba", None)
        importlib.reload(columnar_kernels)
        assert not columnar_kernels.COMPILED
        try:
            assert rows(decode(run, 0, 100, include_headers=True)) == compiled
        finally:
            patched.undo()
            importlib.reload(columnar_kernels)


def test_offsets_alone_are_read_without_decompressing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = b"".join(
        build_batch([(None, b"v")] * 10, timestamp_ms=5, base_offset=base, codec=4)
        for base in (100, 110)
    )
    gap = build_batch(
        [(None, b"v")] * 2, timestamp_ms=5, base_offset=120, codec=4, offset_deltas=(0, 3)
    )
    unpacked = []
    real = Unpacker.take

    def counted(unpacker: Unpacker, batch: BatchView, bytes_max: int | None) -> object:
        unpacked.append(batch.header.base_offset)
        return real(unpacker, batch, bytes_max)

    monkeypatch.setattr(Unpacker, "take", counted)
    groups = columnar.decode_groups(run + gap, 105, 999, wanted=frozenset({"offset"}))
    offsets = [int(offset) for each in groups for offset in each.offsets]
    assert offsets == [*range(105, 120), 120, 123]
    assert unpacked == [120]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_groups_of_any_size_give_the_same_rows(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of batches that fit the room together, one by one, and none by itself."""
    run = b"".join(
        build_batch(
            [(b"k", b"%d" % n * size)] * 20, timestamp_ms=5, base_offset=20 * n, codec=codec
        )
        for n, size in enumerate([5, 50, 5000, 5, 5, 500, 20_000, 1])
    )
    expected = rows(decode(run, 7, 150))
    assert len(expected) == 143
    for room in (3_000, 30_000, 300_000):
        monkeypatch.setattr(columnar, "GROUP_BYTES_MAX", room)
        monkeypatch.setattr(unpacking, "ROOM_BYTES", room + 1)
        found = decode(run, 7, 150)
        assert rows(found) == expected
        assert len(found.columns) > 1 or room == 300_000 or codec == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_unpacks_too_far_is_refused(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "DECOMPRESSED_BYTES_MAX", 100_000)
    monkeypatch.setattr(unpacking, "ROOM_BYTES", 10_000)
    batch = build_batch([(None, b"v" * 99_000)], timestamp_ms=5, base_offset=0, codec=codec)
    assert decode(batch, 0, 9).rows == 1
    batch = build_batch([(None, b"v" * 200_000)], timestamp_ms=5, base_offset=0, codec=codec)
    with pytest.raises(CorruptBatchError, match="more than 100000 bytes"):
        decode(batch, 0, 9)


@pytest.mark.parametrize("wanted", [columnar.ALL - {"headers"}, {"value"}, {"offset"}])
def test_runs_of_small_batches_give_the_rows_of_single_ones(
    wanted: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones beside large, compressed, transactional and control batches, and one with a gap."""
    offset, parts = 0, []
    for n in range(200):
        value, codec = b"v%d" % n, 0
        if n % 50 in (20, 21):
            value = b"large" * 1000
        if n % 50 == 30:
            codec = 3
        count = 1 + n % 3
        records = [(b"k" if n % 2 else None, value)] * count
        if n == 170:
            parts.append(marker(offset, 7, commit=True))
            offset += 1
        parts.append(build_batch(records, timestamp_ms=n, base_offset=offset, codec=codec))
        offset += count
    run = b"".join(bytes(each) for each in parts)
    groups = list(columnar.decode_groups(run, 11, offset - 3, wanted=frozenset(wanted)))
    assert len(groups) < 60  # of 200 batches
    monkeypatch.setattr(columnar, "SMALL_RUN", 1_000_000)
    monkeypatch.setattr(columnar, "GROUP_RECORDS_MAX", 1)
    single = list(columnar.decode_groups(run, 11, offset - 3, wanted=frozenset(wanted)))
    assert len(single) > 150

    def table(found: list[columnar.Columns]) -> list[Any]:
        fields = [("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
        schema = pa.schema([each for each in fields if each[0] in wanted or each[0] == "offset"])
        made = [each.to_arrow("t", 0, schema) for each in found]
        plain: list[Any] = pa.Table.from_batches(made).to_pylist()
        return plain

    assert table(groups) == table(single)


def test_a_bad_batch_among_small_ones_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        bytearray(build_batch([(None, b"v")], timestamp_ms=1, base_offset=n)) for n in range(50)
    ]
    at = sum(len(each) for each in parts[:30])
    parts[30][-1] ^= 1
    with pytest.raises(CorruptBatchError, match=f"at byte {at}|{at}"):
        decode(b"".join(parts), 0, 50)
