"""Small micro-batches are read as they are planned; what is large, or fails, is left to a task."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.options import ClusterOptions, SourceOptions, Subscription
from barnabas.pipeline.read import rows_with_plan, source
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.source import StreamReader
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

ROWS = 100


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(2)
    fake.patience_ms = 30.0
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    monkeypatch.setattr(source, "SETTLED_MS", 30.0)
    for index in range(2):
        where = TopicPartition("t", index)
        records = [(None, b"%d" % n) for n in range(ROWS)]
        fake.logs[where] = [bytes(build_batch(records, timestamp_ms=1))]
        fake.ends[where] = ROWS
    return fake


def reader(offsets_max: int, **changes: Any) -> StreamReader:
    options = SourceOptions(
        ClusterOptions((BROKER,)),
        Subscription(topics=("t",)),
        offsets_in_driver_max=offsets_max,
        **changes,
    )
    return StreamReader(options, record_schema(include_headers=False))


def at(*offsets: int) -> dict[str, Any]:
    return {"t": {str(index): each for index, each in enumerate(offsets)}}


def brought(found: StreamReader, begin: dict[str, Any], end: dict[str, Any]) -> pa.Table | None:
    """What Spark takes with the plan, asked for as Spark asks for it."""
    tasks = found.partitions(begin, end)
    if not isinstance(found, _SimpleStreamReaderWrapper):
        return None
    assert len(tasks) == 1
    return pa.Table.from_batches(found.getCache(begin, end))


def test_rows_with_the_plan_are_those_that_its_task_would_read(cluster: FakeCluster) -> None:
    found = reader(4096)
    rows = brought(found, at(10, 20), at(60, 70))
    assert rows is not None
    assert rows["offset"].to_pylist() == [*range(10, 60), *range(20, 70)]
    assert not isinstance(found, _SimpleStreamReaderWrapper)
    (task,) = found.partitions(at(10, 20), at(60, 70))
    assert rows.equals(pa.Table.from_batches(found.read(task)))
    found.getCache({}, {})
    received = pickle.loads(pickle.dumps(found))  # as executors get it
    assert type(received) is StreamReader


@pytest.mark.parametrize("offsets_max", [0, 99])
def test_more_offsets_than_the_option_says_are_left_to_tasks(
    cluster: FakeCluster, offsets_max: int
) -> None:
    assert brought(reader(offsets_max), at(0, 0), at(50, 50)) is None


def test_an_empty_plan_brings_no_rows(cluster: FakeCluster) -> None:
    assert brought(reader(4096), at(50, 50), at(50, 50)) is None


def test_records_too_large_are_left_to_tasks_until_they_may_be_small(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_with_plan, "BYTES_MAX", 1)
    found = reader(4096)
    assert brought(found, at(0, 0), at(50, 50)) is None
    monkeypatch.setattr(rows_with_plan, "BYTES_MAX", 2_000)
    fetched = cluster.fetches
    assert brought(found, at(0, 0), at(50, 50)) is None
    assert cluster.fetches == fetched
    tries = 2
    while brought(found, at(0, 0), at(10, 10)) is None:
        tries += 1
        assert tries < 30


def test_a_failure_in_the_driver_is_left_to_the_task(cluster: FakeCluster) -> None:
    cluster.logs[TopicPartition("t", 1)] = []
    cluster.ends[TopicPartition("t", 1)] = 5
    assert brought(reader(4096), at(0, 0), at(50, 50)) is None
