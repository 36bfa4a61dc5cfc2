"""A broker that leaves partitions out of its answers is asked again, after a while."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from barnabas.client.client import Client
from barnabas.client.consumers.consumer import Consumer
from barnabas.client.consumers.fetch_requests import FetchSettings, fetch
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import (
    LATEST,
    CommittedOffset,
    GroupIdentity,
    commit,
    committed_offsets,
    existing_offsets,
    list_offsets,
)
from barnabas.client.producers.producer import Producer
from barnabas.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster, read_all, write

T = TypeVar("T")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = {T0: 0, T1: 0}


def brought(cluster: FakeCluster, client: Client, coroutine: Coroutine[Any, Any, T]) -> T:
    done: list[TaskOutcome[T]] = []
    client.tasks.start(coroutine, done.append)
    while not done and cluster.world.now < 100_000:
        cluster.world.run(cluster.world.now + 10)
    return done[0].result()


def filled() -> FakeCluster:
    """One broker, and some records in each of two partitions."""
    cluster = FakeCluster(nodes=1)
    producer = Producer(cluster.client())
    write(cluster, producer, 3, 0)
    write(cluster, producer, 3, 1)
    cluster.world.run(1_000)
    assert cluster.offsets() == {T0: (0, 3), T1: (0, 3)}
    return cluster


def test_a_produce_answer_without_a_partition_is_no_acknowledgement() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.left_out.append(0)
    outcomes = write(cluster, Producer(cluster.client()), 3, 0)
    cluster.world.run(2_000)
    assert [outcome.result().offset for outcome in outcomes] == [0, 1, 2]
    assert cluster.produced == 2


def test_a_fetch_answers_for_all_partitions() -> None:
    cluster = filled()
    cluster.left_out.extend([0, 1])
    client = cluster.client()
    runs = brought(cluster, client, fetch(client, BOTH, FetchSettings()))
    assert {tp: run.next_offset for tp, run in runs.items()} == {T0: 3, T1: 3}


def test_a_consumer_does_not_fetch_without_a_pause() -> None:
    cluster = filled()
    fetches = 0
    answer = cluster.fetch

    def counted(*given: Any) -> Any:
        nonlocal fetches
        fetches += 1
        return answer(*given)

    cluster.fetch = counted  # type: ignore[assignment, method-assign]
    cluster.servers[1].close()
    cluster.start(1)
    cluster.left_out.extend([0] * 5)
    consumer = Consumer(cluster.client())
    consumer.assign({T0: 0})
    began_ms = cluster.world.now
    assert len(read_all(cluster, consumer, 3)) == 3
    assert 6 <= fetches <= 8
    assert cluster.world.now - began_ms > 100


def test_offsets_are_listed_for_all_partitions() -> None:
    cluster = filled()
    client = cluster.client()
    for ask in (list_offsets, existing_offsets):
        cluster.left_out.extend([1, 0])
        found = brought(cluster, client, ask(client, dict.fromkeys(BOTH, LATEST)))
        assert {tp: at.offset for tp, at in found.items()} == {T0: 3, T1: 3}


def test_a_commit_ends_when_all_partitions_are_committed() -> None:
    cluster = filled()
    cluster.left_out.append(1)
    client = cluster.client()
    asked = 0
    answer = cluster.commit

    def counted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return answer(*given)

    cluster.commit = counted  # type: ignore[assignment, method-assign]
    cluster.servers[1].close()
    cluster.start(1)
    brought(
        cluster, client, commit(client, GroupIdentity("g"), dict.fromkeys(BOTH, CommittedOffset(2)))
    )
    assert asked == 2


def test_an_offset_that_is_left_out_counts_as_committed() -> None:
    cluster = filled()
    cluster.committed = {0: 2, 1: 2}
    cluster.left_out.append(0)
    client = cluster.client()
    found = brought(cluster, client, committed_offsets(client, "g", list(BOTH)))
    assert {tp: at.offset for tp, at in found.items()} == {T0: 2, T1: 2}
