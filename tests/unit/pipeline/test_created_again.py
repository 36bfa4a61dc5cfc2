"""A topic that was deleted and created again is another topic, and what is lost is kept as a list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import DataLossError
from barnabas.pipeline.options import ClusterOptions, SourceOptions, Subscription
from barnabas.pipeline.positions.losses import LOST, Loss, kept
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.source import AGAIN, StreamReader
from barnabas.types import TopicPartition, Uuid
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

ALL = ReadAllAvailable()
WHERE = TopicPartition("t", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    fake = FakeCluster(1)
    fake.patience_ms = 30.0
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    yield fake


def stream(checkpoint: Path | None, *, strict: bool = False) -> StreamReader:
    options = SourceOptions(
        ClusterOptions((BROKER,)),
        Subscription(topics=("t",)),
        fail_on_data_loss=strict,
        checkpoint=None if checkpoint is None else str(checkpoint),
    )
    return StreamReader(options, record_schema(include_headers=False))


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": offset}}


def ranges(reader: StreamReader, begin: int, end: int) -> list[str]:
    return [str(what) for each in reader.partitions(at(begin), at(end)) for what in each.ranges]


def created_again(cluster: FakeCluster, end: int) -> None:
    cluster.topic_id, cluster.ends[WHERE] = Uuid(b"another-topic-id"), end


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_a_topic_created_again_is_read_from_its_beginning(
    cluster: FakeCluster, tmp_path: Path, again: bool
) -> None:
    """`again`: the driver ends before the batch is through, and another one runs it."""
    cluster.ends[WHERE] = 100
    stream(tmp_path).latestOffset(at(0), ALL)
    created_again(cluster, 150)
    with pytest.raises(DataLossError, match=r"t-0 \[100, \?\): the topic was deleted and created"):
        stream(tmp_path, strict=True).latestOffset(at(100), ALL)
    reader = stream(tmp_path)
    assert reader.latestOffset(at(100), ALL) == at(150)
    if again:
        reader = stream(tmp_path)
    assert ranges(reader, 100, 150) == ["t-0 [0, 150)"]
    cluster.ends[WHERE] = 170
    assert reader.latestOffset(at(150), ALL) == at(170)
    assert ranges(reader, 150, 170) == ["t-0 [150, 170)"]
    assert kept(str(tmp_path)) == [Loss("t", 0, 100, -1, AGAIN)]
    report = reader.reportLatestOffset()
    assert report is not None and report[LOST] == {"ranges": 1, "offsets": 0}


def test_a_run_notices_another_topic_without_a_checkpoint(cluster: FakeCluster) -> None:
    cluster.ends[WHERE] = 100
    reader = stream(None)
    reader.latestOffset(at(0), ALL)
    created_again(cluster, 100)
    end = reader.latestOffset(at(100), ALL)
    assert end == at(99)  # the same offset would be no batch
    assert ranges(reader, 100, 99) == ["t-0 [0, 99)"]
    assert reader.latestOffset(end, ALL) == at(100)


def test_a_limit_holds_in_a_topic_created_again(cluster: FakeCluster) -> None:
    cluster.ends[WHERE] = 100
    reader = stream(None)
    reader.latestOffset(at(0), ALL)
    created_again(cluster, 500)
    assert reader.latestOffset(at(100), ReadMaxRows(40)) == at(40)
    assert ranges(reader, 100, 40) == ["t-0 [0, 40)"]
    assert reader.latestOffset(at(40), ReadMaxRows(40)) == at(80)


def test_a_planned_batch_of_the_old_topic_is_lost_and_not_read_of_the_new(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.ends[WHERE] = 100
    stream(tmp_path).latestOffset(at(0), ALL)
    created_again(cluster, 150)
    with pytest.raises(DataLossError, match=r"t-0 \[60, 100\)"):
        ranges(stream(tmp_path, strict=True), 60, 100)
    reader = stream(tmp_path)
    assert ranges(reader, 60, 100) == []
    assert reader.latestOffset(at(100), ALL) == at(150)
    assert ranges(reader, 100, 150) == ["t-0 [0, 150)"]
    assert [(each.begin, each.end) for each in kept(str(tmp_path))] == [(60, 100), (100, -1)]


def test_available_now_reads_a_topic_created_again(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.ends[WHERE] = 100
    stream(tmp_path).latestOffset(at(0), ALL)
    created_again(cluster, 150)
    reader = stream(tmp_path)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(at(100), ALL) == at(150)
    assert ranges(reader, 100, 150) == ["t-0 [0, 150)"]
    assert reader.latestOffset(at(150), ALL) == at(150)


def test_a_broker_that_knows_the_old_topic_yet_is_no_data_loss(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.patience_ms = 60_000.0
    cluster.ends[WHERE] = 100
    reader = stream(tmp_path, strict=True)
    reader.latestOffset(at(0), ALL)
    mine = cluster.topic_id
    cluster.topic_id = Uuid(b"an-earlier-topic")
    monkeypatch.setattr(cluster, "ask_another", lambda: setattr(cluster, "topic_id", mine))
    assert reader.latestOffset(at(90), ALL) == at(100)


def test_a_loss_of_a_batch_that_runs_twice_is_counted_once(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.ends[WHERE] = 9
    cluster.begins[WHERE] = 5
    for _ in range(2):
        assert [str(each.what) for each in stream(tmp_path).partitions({}, at(9))] == ["t-0 [5, 9)"]
    (only,) = kept(str(tmp_path))
    assert (only.begin, only.end, only.offsets) == (0, 5, 5)
