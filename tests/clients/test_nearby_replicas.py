"""Consumers in a rack read from the replica there, through its death (KIP-392): librdkafka and ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.fetch.replica_selector import RACK_AWARE_SELECTOR
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.clients.checks import fresh, wait_for, wait_until_known

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin_module = pytest.importorskip("confluent_kafka.admin")
pytestmark = pytest.mark.process
RACKS = ("a", "b", "c")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"replica.selector.class": RACK_AWARE_SELECTOR}
    with Cluster(nodes=3, settings=settings, racks=RACKS) as cluster:
        yield cluster


def filled(cluster: Cluster, count: int) -> str:
    """A topic with one partition, led by node 1 in rack a, of `count` records."""
    topic = fresh("near")
    client = admin_module.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = admin_module.NewTopic(topic, 1, replica_assignment=[[1, 2, 3]])
    client.create_topics([new])[topic].result(30)
    wait_until_known(cluster, topic)
    produce(cluster, topic, range(count))
    return topic


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for each in numbers:
        producer.produce(topic, str(each), partition=0)
    assert producer.flush(30) == 0


def restart(cluster: Cluster, node: int, topic: str) -> None:
    """Start `node` again, and wait until it serves."""
    cluster.restart(node)

    def serves() -> bool:
        try:
            wait_until_known(cluster, topic)
        except OSError:
            return False
        return True

    wait_for(serves, f"node {node} to serve again", 30)


class Reader:
    """A librdkafka consumer in rack b, and what its own statistics say of where it fetches."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.statistics: dict[str, Any] = {}
        self.values: list[int] = []
        self.client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "near",
                "client.rack": "b",
                "enable.auto.commit": False,
                "statistics.interval.ms": 100,
                "stats_cb": self._on_statistics,
            }
        )
        self.client.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        self.topic = topic

    def _on_statistics(self, text: str) -> None:
        self.statistics = json.loads(text)

    def read(self, count: int) -> bool:
        """Whether `count` values in all have been read."""
        for message in self.client.consume(500, 0.1):
            assert message.error() is None, message.error()
            self.values.append(int(message.value()))
        return len(self.values) >= count

    def reads_from(self, node: int) -> bool:
        self.read(0)
        topic = self.statistics.get("topics", {}).get(self.topic)
        return topic is not None and topic["partitions"]["0"]["broker"] == node


def test_librdkafka_reads_from_the_replica_in_its_rack(cluster: Cluster) -> None:
    topic = filled(cluster, 100)
    reader = Reader(cluster, topic)
    wait_for(lambda: reader.read(100), "100 records", 30)
    wait_for(lambda: reader.reads_from(2), "fetches from node 2, in rack b", 30)
    produce(cluster, topic, range(100, 200))
    wait_for(lambda: reader.read(200), "200 records", 30)
    cluster.kill(2)
    produce(cluster, topic, range(200, 300))
    wait_for(lambda: reader.read(300), "300 records after the death of the replica", 30)
    assert reader.values == list(range(300))
    reader.client.close()
    restart(cluster, 2, topic)


def test_own_consumer_reads_from_the_replica_in_its_rack(cluster: Cluster) -> None:
    topic = filled(cluster, 100)
    settings = ConsumerSettings(fetch=FetchSettings(rack="c"), auto_offset_reset="earliest")
    partition = TopicPartition(topic, 0)
    values: list[int] = []
    with connect(cluster.bootstrap) as connected:
        consumer = connected.consumer(settings=settings)
        consumer.inner.assign([partition])

        def read(count: int) -> bool:
            values.extend(int(record.value or b"") for record in consumer.poll(200))
            return len(values) >= count

        wait_for(lambda: read(100), "100 records", 30)
        assert consumer.inner._reading[partition].preferred == 3
        produce(cluster, topic, range(100, 200))
        wait_for(lambda: read(200), "200 records", 30)
        cluster.kill(3)
        produce(cluster, topic, range(200, 300))
        wait_for(lambda: read(300), "300 records after the death of the replica", 30)
        assert values == list(range(300))
        consumer.close()
    restart(cluster, 3, topic)


def test_a_pipeline_reads_in_its_rack_and_from_the_leader_without(cluster: Cluster) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from barnabas.pipeline.offsets import Range
    from barnabas.pipeline.options import source_options
    from barnabas.pipeline.read.range_reader import RangeReader

    topic = filled(cluster, 500)
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    options = source_options({**given, "kafka.client.rack": "b"}, streaming=False)

    def read() -> tuple[int, int | None]:
        """The offset behind the last record, and the port that it came from where that was no leader."""
        reader = RangeReader(options.cluster.connect(), Range(topic, 0, 0, 500), options)
        for _ in reader.runs():
            pass
        return reader.position, reader._replica.port if reader._replica is not None else None

    metadata = admin_module.AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(
        topic, 30
    )
    port = metadata.brokers[2].port
    assert read() == (500, port)
    cluster.kill(2)
    try:
        position, _ = read()
        assert position == 500
    finally:
        restart(cluster, 2, topic)
