"""Where a stream begins is found once: until its first batch is done, every run begins there."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.jobs.job_offsets import fix_beginnings
from barnabas.pipeline.offsets import LATEST, from_json
from barnabas.pipeline.options import ClusterOptions, Everywhere, SourceOptions, Subscription
from barnabas.pipeline.positions.beginning import kept_begin
from barnabas.pipeline.positions.topic_ids import TopicIds
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.source import StreamReader
from barnabas.types import TopicPartition, Uuid
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

ALL = ReadAllAvailable()
WHERE = TopicPartition("t", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(1)
    fake.patience_ms = 30.0
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def options(checkpoint: Path | None, **changes: Any) -> SourceOptions:
    settings: dict[str, Any] = {
        "cluster": ClusterOptions((BROKER,)),
        "subscription": Subscription(topics=("t",)),
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    return SourceOptions(**{**settings, **changes})


def stream(checkpoint: Path | None, **changes: Any) -> StreamReader:
    return StreamReader(options(checkpoint, **changes), record_schema(include_headers=False))


def ranges(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [str(what) for each in reader.partitions(start, end) for what in each.ranges]


def grow(cluster: FakeCluster) -> None:
    """Retention deletes three records, and a partition appears."""
    cluster.begins[WHERE] = 3
    cluster.logs[TopicPartition("t", 1)] = []
    cluster.ends[TopicPartition("t", 1)] = 4


def test_a_first_batch_that_is_repeated_begins_where_it_began(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.ends[WHERE] = 10
    first = stream(tmp_path)
    begin = first.initialOffset()
    end = first.latestOffset(begin, ALL)
    grow(cluster)
    again = stream(tmp_path)
    assert again.initialOffset() == begin == {"t": {"0": 0}}
    assert ranges(again, begin, end) == ["t-0 [0, 10)"]
    following = again.latestOffset(end, ALL)
    assert ranges(again, end, following) == ["t-1 [0, 4)"]


def test_a_stream_that_begins_at_the_end_asks_for_it_once(cluster: FakeCluster) -> None:
    """Spark asks to plan the first batch, and again to read it."""
    cluster.ends[WHERE] = 10
    reader = stream(None, starting=Everywhere(LATEST))
    assert reader.initialOffset() == {"t": {"0": 10}}
    cluster.ends[WHERE] = 25
    assert reader.initialOffset() == {"t": {"0": 10}}


def test_a_reader_without_a_checkpoint_says_that_its_beginning_is_not_kept(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.ends[WHERE] = 10
    with caplog.at_level(logging.WARNING):
        end = stream(None).latestOffset(stream(None).initialOffset(), ALL)
    assert "pipeline.begin_not_kept" in caplog.text
    grow(cluster)
    again = stream(None)
    begin = again.initialOffset()
    assert ranges(again, begin, end) == ["t-0 [3, 10)"]


def test_an_entry_of_another_query_is_not_taken(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "one"}')
    stream(tmp_path).initialOffset()
    assert kept_begin(options(tmp_path)) == {WHERE: 0}
    (tmp_path / "metadata").write_text('{"id": "two"}')
    assert kept_begin(options(tmp_path)) is None


def test_readers_of_one_checkpoint_keep_what_each_of_them_knows(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    other = TopicPartition("u", 0)
    cluster.logs[other] = []
    cluster.ends |= {WHERE: 10, other: 20}
    latest = Everywhere(LATEST)
    assert stream(tmp_path, starting=latest).initialOffset() == {"t": {"0": 10}}
    second = Subscription(topics=("u",))
    assert stream(tmp_path, subscription=second, starting=latest).initialOffset() == {
        "u": {"0": 20}
    }
    assert stream(tmp_path).initialOffset() == {"t": {"0": 0}}
    known = json.loads((tmp_path / "barnabas/topics.json").read_text())["ids"]
    assert sorted(known) == ["t", "u"]


def test_a_topic_that_is_made_again_does_not_hide_what_another_reader_knows(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    other = TopicPartition("u", 0)
    cluster.logs[other] = []
    cluster.ends |= {WHERE: 10, other: 20}
    one, two = TopicIds(str(tmp_path)), TopicIds(str(tmp_path))
    one.take(cluster, {WHERE: 0}, {WHERE: 10})  # type: ignore[arg-type]
    two.take(cluster, {other: 0}, {other: 20})  # type: ignore[arg-type]
    cluster.topic_id = Uuid(b"another-topic-id")
    one.take(cluster, {WHERE: 10}, {WHERE: 15}, [WHERE])  # type: ignore[arg-type]
    two.take(cluster, {other: 20}, {other: 25}, [other])  # type: ignore[arg-type]
    fresh = TopicIds(str(tmp_path))
    assert fresh.begins_again(WHERE, 10, 15) and fresh.begins_again(other, 20, 25)
    assert not fresh.created_again(cluster, [WHERE, other])  # type: ignore[arg-type]


def test_the_beginning_that_sparks_connector_kept_is_taken(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_bytes(b'\0v1\n{"t":{"0":4}}')
    cluster.ends[WHERE] = 10
    assert stream(tmp_path).initialOffset() == {"t": {"0": 4}}


def test_queries_of_a_job_have_one_beginning(cluster: FakeCluster, tmp_path: Path) -> None:
    given = {"kafka.bootstrap.servers": "fake:9092", "subscribe": "t"}
    job, dead, later = (str(tmp_path / name) for name in ("job", "job/dead", "job/later"))
    cluster.ends[WHERE] = 10
    fix_beginnings(given, [job, dead])
    cluster.ends[WHERE] = 30
    fix_beginnings(given, [job, dead])
    reading = {"starting": Everywhere(LATEST)}
    for place in (job, dead):
        assert stream(Path(place), **reading).initialOffset() == {"t": {"0": 10}}
    for name, text in {
        "metadata": '{"id": "q"}',
        "offsets/0": 'v1\n{}\n{"t": {"0": 17}}',
        "commits/0": "v1\n{}",
    }.items():
        Path(job, name).parent.mkdir(parents=True, exist_ok=True)
        Path(job, name).write_text(text)
    fix_beginnings(given, [job, dead, later])
    assert kept_begin(options(Path(later), **reading)) == from_json({"t": {"0": 17}})
    assert kept_begin(options(Path(dead), **reading)) == from_json({"t": {"0": 10}})
