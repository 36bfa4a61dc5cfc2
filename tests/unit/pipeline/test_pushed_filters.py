"""Filters narrow what is read, and never to less than they take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.options import ClusterOptions, SourceOptions, Subscription
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.pushed_filters import pushed
from barnabas.pipeline.read.source import BatchReader, PushingBatchReader
from barnabas.types import TopicPartition
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

OFFSET, PARTITION, TIMESTAMP = ("offset",), ("partition",), ("timestamp",)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(3)
    fake.patience_ms = 30.0
    fake.ends = dict.fromkeys(fake.logs, 100)
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def ranges(*filters: Filter) -> list[str]:
    options = SourceOptions(ClusterOptions((BROKER,)), Subscription(topics=("t",)))
    reader = PushingBatchReader(options, record_schema(include_headers=False))
    given = list(filters)
    assert list(reader.pushFilters(given)) == given  # Spark evaluates each of them
    return [str(what) for each in reader.partitions() for what in getattr(each, "ranges", ())]


def test_partitions_and_offsets_bound_the_ranges(cluster: FakeCluster) -> None:
    assert ranges(EqualTo(PARTITION, 1)) == ["t-1 [0, 100)"]
    assert ranges(In(PARTITION, (0, 2)), GreaterThan(PARTITION, 0)) == ["t-2 [0, 100)"]
    wanted = (GreaterThan(OFFSET, 9), LessThanOrEqual(OFFSET, 19), EqualTo(PARTITION, 0))
    assert ranges(*wanted) == ["t-0 [10, 20)"]
    assert ranges(In(OFFSET, (7, 3, 11)), LessThan(PARTITION, 1)) == ["t-0 [3, 12)"]
    assert ranges(EqualTo(OFFSET, 1_000)) == []


def test_a_topic_that_no_filter_takes_is_not_read(cluster: FakeCluster) -> None:
    assert ranges(EqualTo(("topic",), "u")) == []
    assert len(ranges(In(("topic",), ("t", "u")))) == 3


def test_other_filters_leave_everything(cluster: FakeCluster) -> None:
    everything = ["t-0 [0, 100)", "t-1 [0, 100)", "t-2 [0, 100)"]
    for each in (IsNotNull(OFFSET), EqualTo(("key",), b"k"), Not(EqualTo(PARTITION, 1))):
        assert ranges(each) == everything
    assert ranges(GreaterThan(TIMESTAMP, datetime(2026, 1, 1))) == everything  # noqa: DTZ001
    assert ranges(LessThan(TIMESTAMP, datetime(2026, 1, 1, tzinfo=UTC))) == everything


def test_a_timestamp_bounds_from_below(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    true = cluster.list_offsets

    def at(
        wanted: dict[TopicPartition, int], **more: Any
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        if min(wanted.values()) < 0:
            return true(wanted, **more)
        asked.extend(wanted.values())
        return {each: OffsetAndTimestamp(40 if each.partition else -1, -1) for each in wanted}

    monkeypatch.setattr(cluster, "list_offsets", at)
    when = datetime(1970, 1, 1, 0, 0, 5, 1_999, tzinfo=UTC)
    assert ranges(GreaterThan(TIMESTAMP, when), LessThan(PARTITION, 2)) == ["t-1 [40, 100)"]
    assert asked == [5_001, 5_001]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-3, 12)), max_size=5), st.integers(-1, 9))
def test_bounds_take_each_offset_that_the_filters_take(
    chosen: list[tuple[int, int]], offset: int
) -> None:
    filters: list[Filter] = []
    takes = True
    for kind, n in chosen:
        match kind:
            case 0 | 1:
                filters.append(EqualTo(OFFSET, n) if kind else In(OFFSET, (n, n + 4)))
                takes &= offset == n if kind else offset in (n, n + 4)
            case 2:
                filters.append(GreaterThan(OFFSET, n))
                takes &= offset > n
            case 3:
                filters.append(GreaterThanOrEqual(OFFSET, n))
                takes &= offset >= n
            case 4:
                filters.append(LessThan(OFFSET, n))
                takes &= offset < n
            case 5:
                filters.append(LessThanOrEqual(OFFSET, n))
                takes &= offset <= n
            case _:
                filters.append(Not(EqualTo(OFFSET, n)))
                takes &= offset != n
    assert not takes or offset in pushed(filters).offsets


def test_a_plain_reader_has_no_push_of_its_own() -> None:
    """Spark refuses a reader that has, where the session does not push."""
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
