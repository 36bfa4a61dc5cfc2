"""The age of what a stream has not read, by a sample that never fails a report."""

from __future__ import annotations

import pytest

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.options import ClusterOptions, SourceOptions, Subscription
from barnabas.pipeline.read import waiting_age
from barnabas.pipeline.read.waiting_age import WaitingAge
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from tests.unit.pipeline.fake_cluster import BROKER, FakeCluster

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Record n of partition 1 is of second n."""
    fake = FakeCluster(2)
    for each in range(5):
        batch = build_batch([(None, b"v")], timestamp_ms=each * 1000, base_offset=each)
        fake.logs[SECOND].append(bytes(batch))
    fake.ends[SECOND] = 5
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def age() -> WaitingAge:
    return WaitingAge(SourceOptions(ClusterOptions((BROKER,)), Subscription(topics=("t",))))


def test_the_next_record_of_the_partition_that_is_furthest_behind_has_the_age(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [10_000.0]
    monkeypatch.setattr(waiting_age, "now_ms", lambda: clock[0])
    found = age()
    assert found.seconds({FIRST: 0, SECOND: 2}, {FIRST: 1, SECOND: 5}, 60_000) == 58
    assert found.seconds({FIRST: 0, SECOND: 4}, {FIRST: 0, SECOND: 5}, 60_500) == 58  # sampled once
    clock[0] += 1_000
    assert found.seconds({FIRST: 0, SECOND: 4}, {FIRST: 0, SECOND: 5}, 61_000) == 57
    assert cluster.fetches == 2


def test_nothing_that_waits_has_no_age(cluster: FakeCluster) -> None:
    assert age().seconds({FIRST: 0, SECOND: 5}, {FIRST: 0, SECOND: 5}, 60_000) == 0
    assert cluster.fetches == 0


def test_an_age_that_cannot_be_had_is_left_out(cluster: FakeCluster) -> None:
    assert age().seconds({FIRST: 0, SECOND: 2}, {FIRST: 9, SECOND: 5}, 60_000) is None
