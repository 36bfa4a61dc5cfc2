"""A consumer whose partition lost its end, and went on without it, reads what is there now (KIP-320)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.types import TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.unit.client.fake_cluster import FakeCluster

T0 = TopicPartition("t", 0)


def run(cluster: FakeCluster, ms: float) -> None:
    cluster.world.run(cluster.world.now + ms)


def write(cluster: FakeCluster, *values: bytes) -> None:
    """Each a batch of its own."""
    producer = Producer(cluster.client(), ProducerSettings(linger_ms=0, idempotent=False))
    for value in values:
        outcome = producer.send(ProducerRecord("t", value, partition=0))
        run(cluster, 1500)
        assert outcome.done


def taken(cluster: FakeCluster, consumer: Consumer) -> list[tuple[int, bytes | None]]:
    records = []
    for _ in range(60):
        run(cluster, 50)
        records += consumer.poll()
    return [(record.offset, record.value) for record in records]


def reader(cluster: FakeCluster, policy: str = "latest", group: str | None = None) -> Consumer:
    return Consumer(cluster.client(), group, ConsumerSettings(auto_offset_reset=policy))


@pytest.mark.parametrize("moves", [False, True])
def test_records_written_in_place_of_read_ones_are_read(moves: bool) -> None:
    """It went on at its offset and passed over two records."""
    cluster = FakeCluster(nodes=2, partitions=1)
    write(cluster, b"a", b"b", b"c")
    consumer = reader(cluster)
    consumer.assign({T0: 0})
    assert len(taken(cluster, consumer)) == 3
    partition = cluster.partitions[0]
    partition.cut(1)
    if moves:
        partition.leader = 2
    write(cluster, b"d", b"e", b"f")
    consumer._client.tasks.start(consumer._client.cluster.refresh(["t"]))
    assert taken(cluster, consumer) == [(1, b"d"), (2, b"e"), (3, b"f")]


def test_a_log_that_is_shorter_is_read_on_at_its_end_whatever_the_policy() -> None:
    for policy in ("earliest", "latest"):
        cluster = FakeCluster(nodes=1, partitions=1)
        write(cluster, b"a", b"b", b"c")
        consumer = reader(cluster, policy)
        consumer.assign({T0: 0})
        assert len(taken(cluster, consumer)) == 3
        cluster.partitions[0].cut(1)
        consumer._client.tasks.start(consumer._client.cluster.refresh(["t"]))
        assert taken(cluster, consumer) == []
        write(cluster, b"d")
        assert taken(cluster, consumer) == [(1, b"d")]


def test_a_consumer_without_a_reset_policy_gets_an_error() -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    write(cluster, b"a", b"b")
    consumer = reader(cluster, "none")
    consumer.assign({T0: 0})
    assert len(taken(cluster, consumer)) == 2
    cluster.partitions[0].cut(1)
    write(cluster, b"c", b"d")
    consumer._client.tasks.start(consumer._client.cluster.refresh(["t"]))
    assert taken(cluster, consumer) == []
    assert consumer.failure is not None
    assert consumer.failure.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_group_continues_where_the_log_was_truncated_while_it_was_away() -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    write(cluster, b"a", b"b", b"c")
    consumer = reader(cluster, "earliest", "g")
    consumer.assign([T0])
    assert len(taken(cluster, consumer)) == 3
    consumer._client.tasks.start(consumer.commit())
    run(cluster, 1000)
    assert (cluster.committed[0], cluster.committed_epochs[0]) == (3, 0)
    cluster.partitions[0].cut(2)
    write(cluster, b"d", b"e")
    again = reader(cluster, "earliest", "g")
    again.assign([T0])
    assert taken(cluster, again) == [(2, b"d"), (3, b"e")]


def test_nothing_moves_where_the_leader_has_all_or_cannot_say() -> None:
    for tells in (True, False):
        cluster = FakeCluster(nodes=2, partitions=1, tells_epochs=tells)
        write(cluster, b"a", b"b")
        consumer = reader(cluster)
        consumer.assign({T0: 0})
        assert len(taken(cluster, consumer)) == 2
        partition = cluster.partitions[0]
        partition.leader, partition.epoch = 2, 1
        write(cluster, b"c")
        assert taken(cluster, consumer) == [(2, b"c")]
        partition.leader, partition.epoch = 1, 2
        write(cluster, b"d")
        assert taken(cluster, consumer) == [(3, b"d")]


def test_a_part_of_what_came_is_committed_with_the_epoch_of_its_last_record() -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    write(cluster, b"a")
    cluster.partitions[0].epoch = 1
    write(cluster, b"b")
    consumer = reader(cluster, "earliest", "g")
    consumer.assign([T0])
    run(cluster, 1000)
    for epoch in (-1, 1):  # of the first of two batches of one answer it is not known
        assert len(consumer.poll(1)) == 1
        consumer._client.tasks.start(consumer.commit())
        run(cluster, 1000)
        assert cluster.committed_epochs[0] == epoch


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_a_consumer_ends_at_an_error_that_will_stay(code: ErrorCode) -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    write(cluster, b"a")
    inner, asked = cluster.epoch_ends, 0

    def refuse(request: Any, ctx: Any, node: int) -> Any:
        nonlocal asked
        asked += 1
        response = inner(request, ctx, node)
        if asked <= 3:
            response.topics[0].partitions[0].error_code = code
        return response

    cluster.servers[1].table.replace(ApiKey.OFFSET_FOR_LEADER_EPOCH, refuse)
    consumer = reader(cluster)
    consumer.assign({T0: 0})
    assert len(taken(cluster, consumer)) == 1
    cluster.partitions[0].epoch += 1
    write(cluster, b"b")
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        assert taken(cluster, consumer) == [(1, b"b")]
        assert asked == 4
    else:
        assert taken(cluster, consumer) == []
        assert consumer.failure is not None and consumer.failure.code is code
