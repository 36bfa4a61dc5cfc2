"""confluent-kafka (librdkafka) against a cluster of processes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import (
    CODECS,
    KillLeader,
    assert_read_once_in_order,
    fresh,
    number,
    payload,
    wait_for,
    wait_until_known,
)

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin_module = pytest.importorskip("confluent_kafka.admin")
pytestmark = pytest.mark.process


def admin(cluster: Cluster) -> Any:
    return admin_module.AdminClient({"bootstrap.servers": cluster.bootstrap})


def create(cluster: Cluster, topic: str, partitions: int = 3) -> None:
    new = admin_module.NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
    client = admin(cluster)
    client.create_topics([new])[topic].result(30)
    wait_until_known(cluster, topic)


def producer(cluster: Cluster, **extra: Any) -> Any:
    return confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, **extra}
    )


def consumer(cluster: Cluster, group: str, **extra: Any) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            **extra,
        }
    )


def read(client: Any, count: int, timeout_s: float = 40) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []

    def enough() -> bool:
        for message in client.consume(500, timeout=0.2):
            assert message.error() is None, message.error()
            found.append((message.partition(), message.offset(), number(message.value())))
        return len(found) >= count

    wait_for(enough, f"{count} records", timeout_s)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_are_read_back(cluster: Cluster, codec: str) -> None:
    topic = fresh("codec")
    create(cluster, topic)
    client = producer(cluster, **{"compression.type": codec})
    for index in range(300):
        client.produce(topic, payload(index), key=b"%d" % index)
    assert client.flush(30) == 0
    reader = consumer(cluster, fresh("g"))
    reader.subscribe([topic])
    assert sorted(value for _, _, value in read(reader, 300)) == list(range(300))
    reader.close()


def test_a_group_of_two_rebalances_commits_and_resumes(cluster: Cluster) -> None:
    topic, group = fresh("group"), fresh("g")
    create(cluster, topic, 4)
    client = producer(cluster)
    for index in range(200):
        client.produce(topic, payload(index), partition=index % 4)
    client.flush(30)
    first, second = consumer(cluster, group), consumer(cluster, group)
    first.subscribe([topic])
    assert len(read(first, 200)) == 200
    first.commit(asynchronous=False)
    second.subscribe([topic])

    def shared() -> bool:
        first.poll(0.1)
        second.poll(0.1)
        return len(first.assignment()) == 2 and len(second.assignment()) == 2

    wait_for(shared, "two partitions each")
    owned = {p.partition for p in first.assignment()} | {p.partition for p in second.assignment()}
    assert owned == {0, 1, 2, 3}
    first.close()
    second.close()
    for index in range(200, 240):
        client.produce(topic, payload(index), partition=index % 4)
    client.flush(30)
    again = consumer(cluster, group)
    again.subscribe([topic])
    assert sorted(value for _, _, value in read(again, 40)) == list(range(200, 240))
    again.close()


def test_topics_are_created_listed_and_deleted(cluster: Cluster) -> None:
    topic = fresh("admin")
    create(cluster, topic, 5)
    listed = admin(cluster).list_topics(timeout=10).topics
    assert len(listed[topic].partitions) == 5
    client = admin(cluster)
    client.delete_topics([topic])[topic].result(30)
    wait_for(lambda: topic not in client.list_topics(timeout=10).topics, "deletion")


def test_acknowledged_records_survive_the_death_of_a_leader(cluster: Cluster) -> None:
    topic = fresh("failover")
    create(cluster, topic)
    client = producer(cluster, **{"enable.idempotence": True})
    acknowledged: dict[int, list[int]] = defaultdict(list)

    def note(error: Any, message: Any) -> None:
        assert error is None, error
        acknowledged[message.partition()].append(number(message.value()))

    with KillLeader(cluster, topic, lambda: sum(map(len, acknowledged.values())) > 1000):
        for index in range(6000):
            client.produce(topic, payload(index), partition=index % 3, on_delivery=note)
            client.poll(0 if index % 20 else 0.002)
        assert client.flush(60) == 0
    assert sum(map(len, acknowledged.values())) == 6000
    reader = consumer(cluster, fresh("g"))
    reader.subscribe([topic])
    assert_read_once_in_order(acknowledged, read(reader, 6000))
    reader.close()
