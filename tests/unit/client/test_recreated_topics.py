"""Topics that went away, and topics that were created again under an old name."""

from __future__ import annotations

import pytest

from barnabas.client.client import Client
from barnabas.client.consumers.consumer import Consumer
from barnabas.client.producers.producer import Producer
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.client.fake_cluster import FakeCluster, read_all, write

T0 = TopicPartition("t", 0)


def test_a_group_finds_its_offsets_in_a_recreated_topic() -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    client = cluster.client()
    client.tasks.start(client.cluster.refresh(["t"]))
    write(cluster, Producer(cluster.client()), 5, 0)
    cluster.world.run(500)
    cluster.topic_id = Uuid(b"u" * 16)
    cluster.committed[0] = 3
    consumer = Consumer(client, "g")
    consumer.assign([T0])
    assert len(read_all(cluster, consumer, 2)) == 2
    cluster.topic_id = Uuid(b"v" * 16)
    done = client.tasks.start(consumer.commit())
    cluster.world.run(cluster.world.now + 2000)
    assert done.done and cluster.committed[0] == 5


@pytest.mark.parametrize("known_before", [False, True])
def test_a_topic_that_is_gone_keeps_a_group_from_no_other(known_before: bool) -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    write(cluster, Producer(cluster.client()), 5, 0)
    cluster.world.run(500)
    cluster.committed[0] = 2
    client = cluster.client()
    if known_before:
        told = MetadataResponseTopic(
            name="gone",
            topic_id=Uuid(b"g" * 16),
            partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)],
        )
        client.cluster.learn(MetadataResponse(topics=[told]))
    consumer = Consumer(client, "g")
    consumer.assign([TopicPartition("gone", 0), T0])
    cluster.world.run(cluster.world.now + 6000)
    assert len(read_all(cluster, consumer, 3)) == 3
    assert consumer.position(TopicPartition("gone", 0)) is None and consumer.failure is None


def test_a_reader_without_topic_ids_reads_on_in_a_recreated_topic() -> None:
    """Its leader epochs begin again, and no broker knows the one that was the newest (seed 652553)."""
    cluster = FakeCluster(nodes=1, partitions=1)
    cluster.partitions[0].epoch = 2
    write(cluster, Producer(cluster.client()), 3, 0)
    newest: dict[int, int] = {
        ApiKey.METADATA: 9,
        ApiKey.FETCH: 12,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    }
    consumer = Consumer(
        Client(cluster.world, list(cluster.endpoints.values()), "old", newest=newest)
    )
    consumer.assign({T0: 0})
    assert len(read_all(cluster, consumer, 3)) == 3
    cluster.partitions[0].epoch = 0
    write(cluster, Producer(cluster.client()), 2, 0)
    assert len(read_all(cluster, consumer, 2)) == 2
