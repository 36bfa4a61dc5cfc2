"""Transactions over brokers of both systems in one cluster: leaders and coordinators on either side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from barnabas.client.client import TRANSACTION
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from tests.interop.kafka_broker import KAFKA_ID, KafkaBroker
from tests.peers import RELEASE

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process]
PATIENCE_S = 60.0
OURS, THEIRS = 0, 1
"""Partitions of the topics, by who leads them first."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, KafkaBroker]]:
    settings = {"group.initial.rebalance.delay.ms": "200"}
    with Cluster(nodes=3, settings=settings, release=RELEASE) as cluster:
        kafka = KafkaBroker(cluster, tmp_path_factory.mktemp("kafka"))
        try:
            client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            wait_for("Kafka's broker", lambda: KAFKA_ID in client.list_topics(timeout=5).brokers)
            for name in ("in", "out"):
                placed = [[1, KAFKA_ID, 2], [KAFKA_ID, 1, 3]]
                client.create_topics([admin.NewTopic(name, 2, replica_assignment=placed)])[
                    name
                ].result()
            yield cluster, kafka
        finally:
            kafka.kill()


def wait_for(what: str, condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def ids_by_side(connected: Connected) -> tuple[str, str]:
    """Transactional ids whose coordinator is one of our brokers, and Kafka's."""
    found: dict[bool, str] = {}
    deadline, number = time.monotonic() + PATIENCE_S, 0
    while len(found) < 2:
        assert time.monotonic() < deadline, f"all coordinators are on one side: {found}"
        name, number = f"app-{number}", number + 1
        coordinator = partial(connected.client.coordinator, TRANSACTION, name)
        connected.call(connected.client.retry(coordinator))
        found.setdefault(connected.client.coordinator_node(name) == KAFKA_ID, name)
    return found[False], found[True]


def producer_of(cluster: Cluster, name: str) -> Any:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(60)
    return producer


def committed(cluster: Cluster, topic: str) -> dict[int, list[bytes]]:
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    reader.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in (OURS, THEIRS)])
    read: dict[int, list[bytes]] = {OURS: [], THEIRS: []}
    ended: set[int] = set()
    while len(ended) < 2:
        message = reader.poll(30)
        assert message is not None, "the reader is stuck"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            read[message.partition()].append(message.value())
    reader.close()
    return read


def test_a_transaction_spans_both_systems(mixed: tuple[Cluster, KafkaBroker]) -> None:
    cluster, kafka = mixed
    connected = connect(cluster.bootstrap)
    wanted: list[bytes] = []
    group = "mixed"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0}
    )
    for side, name in enumerate(ids_by_side(connected)):
        producer = producer_of(cluster, name)
        for number in range(10):
            value = b"%d-%d" % (side, number)
            producer.begin_transaction()
            for partition in (OURS, THEIRS):
                producer.produce("out", value, partition=partition)
            at = [confluent_kafka.TopicPartition("in", p, number + 1) for p in (OURS, THEIRS)]
            producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), 30)
            if number % 3 == 2:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                wanted.append(value)
        assert committed(cluster, "out") == {OURS: wanted, THEIRS: wanted}
        offsets = connected.committed(group)
        assert {found.offset for found in offsets.values()} == {10}
    consumer.close()
    _after_kafka_s_death(cluster, kafka, connected, wanted)
    connected.close()


def _after_kafka_s_death(
    cluster: Cluster, kafka: KafkaBroker, connected: Connected, wanted: list[bytes]
) -> None:
    """Transactions are open on both sides when Kafka's broker is killed -9: one is committed afterwards, the
    other is ended by its successor."""
    ours, theirs = ids_by_side(connected)
    survivor, lost = producer_of(cluster, ours), producer_of(cluster, theirs)
    for producer, value in ((survivor, b"kept"), (lost, b"lost")):
        producer.begin_transaction()
        for partition in (OURS, THEIRS):
            producer.produce("out", value, partition=partition)
        producer.flush(30)
    kafka.kill()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            survivor.commit_transaction(30)
            break
        except confluent_kafka.KafkaException as error:
            assert error.args[0].retriable() and time.monotonic() < deadline, error
    successor = producer_of(cluster, theirs)
    successor.begin_transaction()
    for partition in (OURS, THEIRS):
        successor.produce("out", b"after", partition=partition)
    successor.commit_transaction(30)
    whole = [*wanted, b"kept", b"after"]
    assert committed(cluster, "out") == {OURS: whole, THEIRS: whole}
