"""Without numba the same functions run interpreted, with the same results, and say so once."""

from __future__ import annotations

import importlib
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barnabas.pipeline import speed
from barnabas.pipeline.options import CODECS, ClusterOptions, SinkOptions
from barnabas.pipeline.write.batch_encoder import BatchEncoder, EncodedBatch
from barnabas.pipeline.write.recut import HEADERS, ROWS
from barnabas.record import columnar_kernels as kernels
from barnabas.record.columnar import decode


@contextmanager
def without_numba() -> Iterator[None]:
    """The loops as they are where numba cannot be imported."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "numba", None)
        importlib.reload(kernels)
        assert not kernels.COMPILED
        try:
            yield
        finally:
            patched.undo()
            importlib.reload(kernels)


def rows_of(seed: int, count: int) -> pa.RecordBatch:
    chance = random.Random(seed)

    def some(size: int) -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.randrange(size))

    headers = [
        [{"key": "h" * n, "value": some(9)} for n in range(chance.randrange(3))] or None
        for _ in range(count)
    ]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([some(40) for _ in range(count)], pa.binary()),
            "value": pa.array([some(200) for _ in range(count)], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "partition": pa.array(
                [chance.choice([None, None, 3]) for _ in range(count)], pa.int32()
            ),
        }
    )


def written(turn: int) -> list[EncodedBatch]:
    """Batches of keyed rows, of rows without a key, and of rows with a partition."""
    options = SinkOptions(ClusterOptions(()), topic="t", codec=CODECS["lz4"], batch_bytes_max=3000)
    encoder = BatchEncoder(options, lambda _: 7, wall_ms=1_700_000_000_000, turn=turn)
    return [each for seed in range(3) for each in encoder.encode(rows_of(seed, 200))]


def read(batches: list[EncodedBatch]) -> list[Any]:
    found: list[Any] = []
    for each in batches:
        for columns in decode(each.data, 0, 1 << 40, include_headers=True).columns:
            found.append(columns.to_arrow(*each.partition, ROWS).to_pylist())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, (1 << 40) + 5])
def test_interpreted_loops_write_and_read_the_same(turn: int) -> None:
    assert kernels.COMPILED
    batches = written(turn)
    rows = read(batches)
    with without_numba():
        assert written(turn) == batches
        assert read(batches) == rows
    assert len({each.partition for each in batches}) == 7


@pytest.mark.slow
def test_interpreted_hashes_are_those_of_the_compiled_loop() -> None:
    chance = random.Random(1)
    for size in (*range(40), 1000, 70_000):
        data = kernels.frozen(np.frombuffer(chance.randbytes(size + 3), np.uint8))
        at: Any = np.int32(3)
        length: Any = np.int32(size)  # as they come out of an Arrow column
        compiled = kernels.murmur2(data, at, length)
        with without_numba():
            assert kernels.murmur2(data, at, length) == compiled


@pytest.mark.slow
def test_a_worker_without_numba_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(speed, "_is_said", False)
    with caplog.at_level(logging.WARNING):
        speed.warn_if_interpreted()
        assert not caplog.records
        with without_numba():
            written(0)
            written(0)
    (record,) = caplog.records
    assert "numba is not installed" in record.getMessage()
    assert "pip install 'barnabas[spark]'" in record.getMessage()
