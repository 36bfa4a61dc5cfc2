"""What a trigger takes, and what its tasks read."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import DataLossError, OptionError
from barnabas.pipeline.offsets import LATEST, PartitionOffsets, from_json
from barnabas.pipeline.options import ClusterOptions, Everywhere, SourceOptions, Subscription
from barnabas.pipeline.positions import offset_resolution
from barnabas.pipeline.read import source
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.lag import BEHIND
from barnabas.pipeline.read.source import BatchReader, StreamReader
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

ALL = ReadAllAvailable()


class Clock:
    """In place of the reader's clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(source, "now_ms", clock)
    return clock


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(2)
    fake.patience_ms = 30.0
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def has(cluster: FakeCluster, *ends: int) -> None:
    """Partition n of topic t ends at the n-th of `ends`."""
    for index, end in enumerate(ends):
        partition = TopicPartition("t", index)
        cluster.logs.setdefault(partition, [])
        cluster.ends[partition] = end


def options(**changes: Any) -> SourceOptions:
    settings: dict[str, Any] = {
        "cluster": ClusterOptions((BROKER,)),
        "subscription": Subscription(topics=("t",)),
    }
    return SourceOptions(**{**settings, **changes})


def stream(**changes: Any) -> StreamReader:
    return StreamReader(options(**changes), record_schema(include_headers=False))


def ranges(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [str(what) for each in reader.partitions(start, end) for what in each.ranges]


def at(*offsets: int) -> dict[str, Any]:
    return {"t": {str(index): each for index, each in enumerate(offsets)}}


def test_a_trigger_takes_what_is_there(cluster: FakeCluster) -> None:
    has(cluster, 10, 20)
    reader = stream()
    assert reader.initialOffset() == at(0, 0)
    assert reader.getDefaultReadLimit() == ALL
    assert reader.latestOffset(at(0, 5), ALL) == at(10, 20)
    has(cluster, 10, 26)
    behind = {"offsets": 6, "minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 6}
    assert reader.reportLatestOffset() == {
        **at(10, 26),
        BEHIND: {**behind, "avgOffsetsBehindLatest": 3},
    }
    assert ranges(reader, at(0, 5), at(10, 20)) == ["t-0 [0, 10)", "t-1 [5, 20)"]
    assert ranges(reader, at(10, 5), at(10, 20)) == ["t-1 [5, 20)"]
    assert ranges(reader, at(10, 20), at(10, 20)) == []


def test_a_limit_is_kept_unless_spark_asks_for_all(cluster: FakeCluster) -> None:
    has(cluster, 100, 300)
    reader = stream(rows_per_trigger_max=40)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(40)
    assert reader.latestOffset(at(0, 0), limit) == at(10, 30)
    assert reader.latestOffset(at(0, 0), ALL) == at(100, 300)


def test_bytes_of_a_trigger_are_kept_by_the_size_of_records(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(cluster, 100, 300)
    sizes = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 50}
    reader = stream(bytes_per_trigger_max=2_500)
    monkeypatch.setattr(reader, "_sizes", lambda *_: sizes)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(2_500)
    assert reader.latestOffset(at(0, 0), limit) == at(10, 30)
    assert reader.latestOffset(at(0, 0), ReadMaxBytes(25_000)) == at(100, 300)
    both = stream(bytes_per_trigger_max=2_500, rows_per_trigger_max=4)
    monkeypatch.setattr(both, "_sizes", lambda *_: sizes)
    assert both.latestOffset(at(0, 0), both.getDefaultReadLimit()) == at(1, 3)


def test_the_size_of_records_is_learnt_from_the_log(cluster: FakeCluster) -> None:
    has(cluster, 4)
    where = TopicPartition("t", 0)
    batch = bytes(build_batch([(None, b"v" * 1_000)] * 4, timestamp_ms=1))
    cluster.logs[where] = [batch]
    reader = stream(bytes_per_trigger_max=2 * len(batch) // 4 + 10)
    assert reader.latestOffset(at(0, 0), reader.getDefaultReadLimit()) == at(2, 0)


def test_a_trigger_waits_for_enough_rows_but_not_for_ever(
    cluster: FakeCluster, clock: Clock
) -> None:
    has(cluster, 3, 4)
    reader = stream(rows_per_trigger_min=10, trigger_delay_ms_max=1_000)
    limit: ReadLimit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    assert reader.latestOffset(at(0, 0), limit) == at(0, 0)
    clock.now_ms += 999
    assert reader.latestOffset(at(0, 0), limit) == at(0, 0)
    clock.now_ms += 1
    assert reader.latestOffset(at(0, 0), limit) == at(3, 4)
    has(cluster, 5, 4)
    assert reader.latestOffset(at(3, 4), limit) == at(3, 4)
    has(cluster, 13, 4)
    assert reader.latestOffset(at(3, 4), limit) == at(13, 4)


def test_available_now_ends_where_it_began(cluster: FakeCluster) -> None:
    has(cluster, 3, 4)
    reader = stream(rows_per_trigger_min=100)
    reader.prepareForTriggerAvailableNow()
    has(cluster, 50, 60)
    assert reader.latestOffset(at(0, 0), reader.getDefaultReadLimit()) == at(3, 4)


def test_new_partitions_are_read_from_their_beginning(cluster: FakeCluster) -> None:
    has(cluster, 10, 10, 7)
    reader = stream(rows_per_trigger_max=1_000)
    end = reader.latestOffset(at(10, 10), ReadMaxRows(1_000))
    assert end == at(10, 10, 7)
    assert ranges(reader, at(10, 10), end) == ["t-2 [0, 7)"]
    cluster.begins[TopicPartition("t", 2)] = 5
    with pytest.raises(
        DataLossError, match=r"t-2 \[0, 5\): the log of a new partition does not begin at 0"
    ):
        ranges(reader, at(10, 10), end)
    assert ranges(stream(fail_on_data_loss=False), at(10, 10), end) == ["t-2 [5, 7)"]


@pytest.mark.slow
def test_a_log_that_ends_earlier_is_data_loss(cluster: FakeCluster) -> None:
    has(cluster, 10, 3)
    for trigger in (None, "availableNow"):
        reader, lenient = stream(), stream(fail_on_data_loss=False)
        if trigger:
            reader.prepareForTriggerAvailableNow()
            lenient.prepareForTriggerAvailableNow()
        with pytest.raises(DataLossError, match=r"t-1 \[8, \?\): the log ends at 3"):
            reader.latestOffset(at(10, 8), ALL)
        end = lenient.latestOffset(at(9, 8), ALL)
        assert end == at(10, 3)
        assert ranges(lenient, at(9, 8), end) == ["t-0 [9, 10)"]


def test_a_recreated_topic_is_read_on_where_loss_is_allowed(cluster: FakeCluster) -> None:
    has(cluster, 10, 3)
    lenient = stream(fail_on_data_loss=False, rows_per_trigger_max=1_000)
    end = lenient.latestOffset(at(10, 800), ReadMaxRows(1_000))
    has(cluster, 10, 7)
    later = lenient.latestOffset(end, ReadMaxRows(1_000))
    assert ranges(lenient, end, later) == ["t-1 [3, 7)"]


@pytest.mark.slow
@pytest.mark.parametrize("available_now", [False, True])
def test_a_broker_that_lags_is_no_data_loss(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, available_now: bool
) -> None:
    cluster.patience_ms = 60_000.0
    monkeypatch.setattr(source, "SETTLED_MS", 60_000.0)
    has(cluster, 10, 20)
    true, answers = offset_resolution.latest, [at(10), at(9, 20), at(10, 4)]

    def lagging(*arguments: Any) -> PartitionOffsets:
        return from_json(answers.pop(0)) if answers else true(*arguments)

    monkeypatch.setattr(source, "latest", lagging)
    for lenient in (False, True):
        reader = stream(fail_on_data_loss=not lenient)
        if available_now:
            reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(at(10, 12), ALL) == at(10, 20)
        answers[:] = [at(10), at(9, 20), at(10, 4)]


@pytest.mark.slow
def test_a_missing_topic_is_waited_for_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.patience_ms = 500.0
    has(cluster, 10, 20)
    asked: list[str] = []
    monkeypatch.setattr(cluster, "ask_another", lambda: asked.append("another"))
    reader = stream(fail_on_data_loss=False)
    reader.prepareForTriggerAvailableNow()
    gone = {"t": {"0": 9, "1": 20}, "u": {"0": 5}}
    end = reader.latestOffset(gone, ALL)
    assert end == {"t": {"0": 10, "1": 20}, "u": {"0": 5}}
    times = len(asked)
    has(cluster, 50, 60)
    assert times > 0 and reader.latestOffset(end, ALL) == end
    assert len(asked) == times


@pytest.mark.slow
def test_a_deleted_topic_is_data_loss(cluster: FakeCluster) -> None:
    cluster.logs.clear()
    with pytest.raises(DataLossError, match=r"t-0 \[5, \?\): the topic was deleted"):
        stream().latestOffset(at(5), ALL)
    assert stream(fail_on_data_loss=False).latestOffset(at(5), ALL) == at(5)


@pytest.mark.slow
def test_a_topic_that_is_not_subscribed_any_more_is_not_called_deleted(
    cluster: FakeCluster,
) -> None:
    cluster.logs[TopicPartition("u", 0)] = []
    cluster.ends[TopicPartition("u", 0)] = 3
    start = {**at(5, 5), "u": {"0": 2}}
    has(cluster, 5, 5)
    with pytest.raises(
        DataLossError, match=r"u-0 \[2, \?\): the topic is there, and the query does not"
    ):
        stream().latestOffset(start, ALL)
    assert stream(fail_on_data_loss=False).latestOffset(start, ALL) == start


@pytest.mark.slow
def test_a_query_does_not_begin_on_a_topic_that_is_not_there(cluster: FakeCluster) -> None:
    missing = Subscription(topics=("t", "u"))
    with pytest.raises(OptionError, match="u does not exist"):
        stream(subscription=missing).initialOffset()
    reader = BatchReader(options(subscription=missing), record_schema(include_headers=False))
    with pytest.raises(OptionError, match="u does not exist"):
        reader.partitions()
    partition = Subscription(partitions=(TopicPartition("t", 9),))
    with pytest.raises(OptionError, match="t-9 does not exist"):
        stream(subscription=partition).initialOffset()


def test_a_pattern_may_match_nothing_yet(cluster: FakeCluster) -> None:
    reader = stream(subscription=Subscription(pattern="u.*"))
    assert reader.initialOffset() == {}
    assert reader.latestOffset({}, ALL) == {}
    assert reader.partitions({}, {}) == []


@pytest.mark.slow
def test_a_partition_whose_leader_has_not_heard_of_it_is_not_left_out(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left out of the first offsets it would be read from its beginning later, or by a batch never."""
    cluster.patience_ms = 60_000.0
    monkeypatch.setattr(offset_resolution, "KNOWN_MS", 60_000.0)
    has(cluster, 10, 20)
    true, silent = cluster.list_offsets, [2]

    def unaware(
        at: dict[TopicPartition, int], **more: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        found = true(at, **more)
        if silent[0]:
            silent[0] -= 1
            found.pop(TopicPartition("t", 1))
        return found

    monkeypatch.setattr(cluster, "list_offsets", unaware)
    assert stream(starting=Everywhere(LATEST)).initialOffset() == at(10, 20)
    silent[0] = 2
    reader = BatchReader(options(), record_schema(include_headers=False))
    found = [str(what) for each in reader.partitions() for what in each.ranges]
    assert found == ["t-0 [0, 10)", "t-1 [0, 20)"]
    silent[0] = 1_000_000
    cluster.patience_ms = 30.0
    with pytest.raises(OptionError, match="t-1 does not exist"):
        reader.partitions()
