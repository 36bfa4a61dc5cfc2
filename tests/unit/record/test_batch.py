"""Batches: what is built is read back, what is damaged is refused with one typed error."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.record.batch import (
    HEADER_SIZE,
    CorruptBatchError,
    UnsupportedMagicError,
    iterate,
    read_header,
    seal,
    whole_size,
)
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.compression import Codec, CompressionError, compress, decompress
from barnabas.record.decode import records_of
from tests.effort import examples

maybe_bytes = st.none() | st.binary(max_size=60)
record = st.tuples(
    maybe_bytes,
    maybe_bytes,
    st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    st.integers(0, 1 << 41),
)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(records=st.lists(record, min_size=1, max_size=20), codec=st.sampled_from(Codec))
def test_a_built_batch_is_read_back(
    records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]],
    codec: Codec,
) -> None:
    data = build_batch(records, timestamp_ms=5, base_offset=100, leader_epoch=3, codec=codec)
    (batch,) = iterate(data, crc=True, partial_tail=False)
    assert batch.header.max_timestamp == max(r[3] for r in records)
    found = [(r.key, r.value, r.headers, r.timestamp) for r in records_of(batch)]
    assert found == records
    assert [r.offset for r in records_of(batch)] == list(range(100, 100 + len(records)))


def run(count: int = 5) -> bytes:
    return b"".join(
        build_batch([(b"k", b"v" * at)] * 3, timestamp_ms=at, base_offset=3 * at)
        for at in range(count)
    )


def test_a_run_that_is_cut_off_anywhere_gives_its_whole_batches() -> None:
    data = run()
    ends = [batch.position + batch.header.size for batch in iterate(data)]
    for size in range(len(data)):
        whole = [end for end in ends if end <= size]
        assert len(list(iterate(data[:size], crc=True))) == len(whole)
        assert whole_size(data[:size]) == (whole[-1] if whole else 0)
        if size not in (0, *ends):
            with pytest.raises(CorruptBatchError):
                list(iterate(data[:size], partial_tail=False))


def test_every_flipped_bit_is_noticed_or_in_the_part_that_leaders_assign() -> None:
    data = bytearray(build_batch([(b"key", b"value")] * 2, timestamp_ms=9))
    for at in range(len(data) * 8):
        data[at // 8] ^= 1 << at % 8
        try:
            batches = list(iterate(data, crc=True, partial_tail=False))
        except CorruptBatchError:
            pass
        else:
            assert at // 8 in (*range(8), *range(12, 16)), at
            assert len(batches) == 1
        data[at // 8] ^= 1 << at % 8


def test_old_formats_are_named() -> None:
    data = bytearray(build_batch([(None, b"x")], timestamp_ms=1))
    data[16] = 1
    with pytest.raises(UnsupportedMagicError, match="format 1"):
        list(iterate(data))


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 1 << 30), codec=st.sampled_from(Codec))
def test_records_that_lie_end_in_one_typed_error(seed: int, codec: Codec) -> None:
    """Anything behind the header may be anything, with a CRC that fits."""
    rng = random.Random(seed)
    data = bytearray(build_batch([(b"k", rng.randbytes(20))] * 4, timestamp_ms=1, codec=codec))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(57, len(data))] = rng.randrange(256)
    seal(data)
    try:
        (batch,) = iterate(data, crc=True)
        for found in records_of(batch, 1 << 20):
            assert len(found.key or b"") <= len(data) * 64
    except CorruptBatchError:
        pass


def test_a_count_that_lies_costs_nothing() -> None:
    data = bytearray(build_batch([(None, b"x")], timestamp_ms=1))
    data[57:61] = (0x7FFFFFFF).to_bytes(4, "big")
    seal(data)
    (batch,) = iterate(data, crc=True)
    with pytest.raises(CorruptBatchError):
        list(records_of(batch))


def test_markers_are_control_batches_of_their_producer() -> None:
    data = end_transaction_marker(
        commit=False, timestamp_ms=3, producer_id=9, producer_epoch=2, coordinator_epoch=7
    )
    header = read_header(data)
    assert header.is_control and header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, -1)
    assert len(data) > HEADER_SIZE


@pytest.mark.parametrize("codec", list(Codec))
def test_codecs_give_back_what_they_took(codec: Codec) -> None:
    rng = random.Random(1)
    for size in (0, 1, 1000, 32 * 1024, 32 * 1024 + 1, 300_000):
        data = rng.randbytes(size // 2) + b"a" * (size - size // 2)
        assert bytes(decompress(codec, compress(codec, data))) == data
    for level in (1, 9):
        assert bytes(decompress(codec, compress(codec, b"x" * 999, level))) == b"x" * 999


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(4 << 20))
    with pytest.raises(CompressionError):
        decompress(codec, bomb, 1 << 20)


def test_snappy_is_read_with_and_without_javas_frame() -> None:
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(b"hello" * 100))
    assert bytes(decompress(Codec.SNAPPY, raw)) == b"hello" * 100
    with pytest.raises(CompressionError):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0fabc")
