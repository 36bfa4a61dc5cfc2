"""Looking at records without reading them finds what reading them would find, faults included."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.record.batch import CorruptBatchError, iterate, seal
from barnabas.record.builder import build_batch
from barnabas.record.decode import records_of
from barnabas.record.spans import section_of, spans_of
from tests.effort import examples


@pytest.mark.slow
@settings(max_examples=examples(1000))
@given(seed=st.integers(0, 1 << 40), damaged=st.booleans())
def test_spans_and_records_agree(seed: int, damaged: bool) -> None:
    rng = random.Random(seed)
    records = [
        (
            rng.choice([None, rng.randbytes(rng.randrange(0, 100))]),
            rng.choice([None, rng.randbytes(rng.randrange(0, 100))]),
            tuple(
                (rng.choice(["", "h", "ü"]), rng.choice([None, b"", b"value"]))
                for _ in range(rng.choice([0, 0, 1, 3]))
            ),
            1_750_000_000_000 + rng.randrange(-100_000, 100_000),
        )
        for _ in range(rng.randrange(1, 80))
    ]
    data = bytearray(build_batch(records, timestamp_ms=0, base_offset=7))
    if damaged:
        for _ in range(rng.randrange(1, 3)):
            data[rng.randrange(61, len(data))] = rng.randrange(256)
        seal(data)
    (batch,) = iterate(data, crc=True)
    try:
        read = [(r.offset - 7, r.key, r.value is not None, r.timestamp) for r in records_of(batch)]
    except CorruptBatchError:
        read = None
    try:
        base = batch.header.base_timestamp
        seen = [
            (delta, key, has_value, base + stamp)
            for _, _, delta, stamp, key, has_value in spans_of(section_of(batch), batch.header)
        ]
    except CorruptBatchError:
        seen = None
    assert seen == read
