"""A plan that is used again reads what is there then, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import DataLossError
from barnabas.pipeline.offsets import EARLIEST, LATEST
from barnabas.pipeline.options import AtOffsets, ClusterOptions, SourceOptions, Subscription
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.source import BatchReader, RangePartition
from barnabas.pipeline.reuse.each_use import settled
from barnabas.types import TopicPartition, Uuid
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(2)
    fake.patience_ms = 30.0
    fake.ends |= {ZERO: 10, ONE: 0}
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


class Plan:
    """Of a batch read of topic t."""

    def __init__(self, **changes: Any) -> None:
        settings: dict[str, Any] = {
            "cluster": ClusterOptions((BROKER,)),
            "subscription": Subscription(topics=("t",)),
        }
        self.options = SourceOptions(**{**settings, **changes})
        self.tasks = BatchReader(self.options, record_schema(include_headers=False)).partitions()

    def used(self) -> list[str]:
        """What its tasks read now."""
        found = []
        for task in self.tasks:
            assert isinstance(task, RangePartition)
            ranges = settled(task.ranges, task.newer, self.options, "plan")
            found += [str(each) for each in ranges]
        return found


def test_ends_move_and_beginnings_with_them(cluster: FakeCluster) -> None:
    plan = Plan()
    assert plan.used() == ["t-0 [0, 10)"]
    cluster.ends |= {ZERO: 14, ONE: 2}
    assert plan.used() == ["t-0 [0, 14)", "t-1 [0, 2)"]
    cluster.begins[ZERO] = 12
    assert plan.used() == ["t-0 [12, 14)", "t-1 [0, 2)"]


def test_pieces_of_a_partition_cover_each_offset_once(cluster: FakeCluster) -> None:
    plan = Plan(partitions_min=3)
    cluster.ends[ZERO] = 25
    cluster.begins[ZERO] = 4
    assert plan.used() == ["t-0 [4, 6)", "t-0 [6, 25)"]
    cluster.topic_id = Uuid(b"another-topic-id")
    cluster.begins[ZERO], cluster.ends[ZERO] = 0, 7
    assert plan.used() == ["t-0 [0, 7)"]


def test_partitions_that_are_newer_than_the_plan_are_read(cluster: FakeCluster) -> None:
    plan = Plan()
    cluster.logs[TopicPartition("t", 2)] = []
    cluster.ends[TopicPartition("t", 2)] = 3
    assert plan.used() == ["t-0 [0, 10)", "t-2 [0, 3)"]


def test_offsets_that_an_option_names_stay(cluster: FakeCluster) -> None:
    plan = Plan(
        starting=AtOffsets({ZERO: 2, ONE: EARLIEST}), ending=AtOffsets({ZERO: 8, ONE: LATEST})
    )
    cluster.ends |= {ZERO: 14, ONE: 2}
    cluster.begins |= {ZERO: 4, ONE: 1}
    assert plan.used() == ["t-0 [2, 8)", "t-1 [1, 2)"]


def test_offsets_of_the_first_use_stay_where_asked(cluster: FakeCluster) -> None:
    plan = Plan(batch_offsets="first-use")
    cluster.ends |= {ZERO: 14, ONE: 2}
    assert plan.used() == ["t-0 [0, 10)"]


def test_a_topic_of_which_some_brokers_do_not_know_yet_is_asked_for_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that was made again a moment ago was taken for deleted."""
    plan = Plan()
    cluster.patience_ms = 20_000.0
    cluster.topic_id = Uuid(b"another-topic-id")
    cluster.ends[ZERO] = 2
    logs, asked = dict(cluster.logs), []

    def ask_another() -> None:
        asked.append(1)
        if len(asked) == 3:
            cluster.logs |= logs

    monkeypatch.setattr(cluster, "ask_another", ask_another)
    cluster.logs.clear()
    assert plan.used() == ["t-0 [0, 2)"]


def test_a_topic_that_is_made_again_with_fewer_partitions_is_read(cluster: FakeCluster) -> None:
    cluster.ends[ONE] = 3
    plan = Plan()
    cluster.topic_id = Uuid(b"another-topic-id")
    del cluster.logs[ONE]
    cluster.ends[ZERO] = 2
    assert plan.used() == ["t-0 [0, 2)"]


def test_a_topic_that_is_gone_is_an_error(cluster: FakeCluster) -> None:
    plan, lenient = Plan(), Plan(fail_on_data_loss=False)
    cluster.logs.clear()
    with pytest.raises(DataLossError, match="the topic was deleted"):
        plan.used()
    assert lenient.used() == []


class Context:
    """Of a task on a cluster, in one execution after the other."""

    execution = "1"

    def getLocalProperty(self, key: str) -> str:
        return "spark://host:7077" if key == "spark.master" else Context.execution


def test_executors_that_may_be_lost_read_the_offsets_of_the_first_use(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stage that runs again is to find the rows that it had."""
    plan, moving = Plan(), Plan(batch_offsets="each-use")
    cluster.ends[ZERO] = 14
    monkeypatch.setattr("pyspark.TaskContext.get", Context)
    assert plan.used() == plan.used() == ["t-0 [0, 10)"]
    assert not caplog.text
    monkeypatch.setattr(Context, "execution", "2")
    assert plan.used() == ["t-0 [0, 10)"]
    assert "pipeline.offsets_of_first_use" in caplog.text
    assert moving.used() == ["t-0 [0, 14)"]
