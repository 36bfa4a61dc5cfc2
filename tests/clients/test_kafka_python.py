"""kafka-python against a cluster of processes."""

from __future__ import annotations

import time
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

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
kafka_admin = pytest.importorskip("kafka.admin")
pytestmark = pytest.mark.process


def servers(cluster: Cluster) -> list[str]:
    return cluster.bootstrap.split(",")


def admin(cluster: Cluster) -> Any:
    return kafka_admin.KafkaAdminClient(bootstrap_servers=servers(cluster))


def create(cluster: Cluster, topic: str, partitions: int = 3) -> None:
    client = admin(cluster)
    client.create_topics([kafka_admin.NewTopic(topic, partitions, 3)])
    client.close()
    wait_until_known(cluster, topic)


def consumer(cluster: Cluster, topic: str, group: str) -> Any:
    return kafka.KafkaConsumer(
        topic,
        bootstrap_servers=servers(cluster),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )


def poll(client: Any, timeout_ms: int = 200) -> list[tuple[int, int, int]]:
    return [
        (record.partition, record.offset, number(record.value))
        for records in client.poll(timeout_ms=timeout_ms).values()
        for record in records
    ]


def read(client: Any, count: int, timeout_s: float = 40) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []

    def enough() -> bool:
        found.extend(poll(client))
        return len(found) >= count

    wait_for(enough, f"{count} records", timeout_s)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_are_read_back(cluster: Cluster, codec: str) -> None:
    topic = fresh("codec")
    create(cluster, topic)
    try:
        client = kafka.KafkaProducer(
            bootstrap_servers=servers(cluster),
            acks="all",
            compression_type=None if codec == "none" else codec,
        )
    except AssertionError as error:
        pytest.skip(f"the library for {codec} is not installed: {error}")
    for index in range(300):
        client.send(topic, payload(index), key=b"%d" % index)
    client.flush(30)
    client.close()
    reader = consumer(cluster, topic, fresh("g"))
    assert sorted(value for _, _, value in read(reader, 300)) == list(range(300))
    reader.close()


def test_a_group_of_two_rebalances_commits_and_resumes(cluster: Cluster) -> None:
    topic, group = fresh("group"), fresh("g")
    create(cluster, topic, 4)
    client = kafka.KafkaProducer(bootstrap_servers=servers(cluster), acks="all")
    for index in range(200):
        client.send(topic, payload(index), partition=index % 4)
    client.flush(30)
    first = consumer(cluster, topic, group)
    assert len(read(first, 200)) == 200
    first.commit()
    second = consumer(cluster, topic, group)

    def shared() -> bool:
        poll(first, 100)
        poll(second, 100)
        return len(first.assignment()) == 2 and len(second.assignment()) == 2

    wait_for(shared, "two partitions each", 60)
    assert {p.partition for p in first.assignment() | second.assignment()} == {0, 1, 2, 3}
    first.close()
    second.close()
    for index in range(200, 240):
        client.send(topic, payload(index), partition=index % 4)
    client.flush(30)
    client.close()
    again = consumer(cluster, topic, group)
    assert sorted(value for _, _, value in read(again, 40)) == list(range(200, 240))
    again.close()


def test_topics_are_created_listed_and_deleted(cluster: Cluster) -> None:
    topic = fresh("admin")
    create(cluster, topic, 5)
    client = admin(cluster)
    assert topic in client.list_topics()
    client.delete_topics([topic])
    wait_for(lambda: topic not in client.list_topics(), "deletion")
    client.close()


def test_acknowledged_records_survive_the_death_of_a_leader(cluster: Cluster) -> None:
    topic = fresh("failover")
    create(cluster, topic)
    client = kafka.KafkaProducer(
        bootstrap_servers=servers(cluster), acks="all", enable_idempotence=True, linger_ms=5
    )
    acknowledged: dict[int, list[int]] = defaultdict(list)

    def note(index: int) -> Any:
        return lambda meta: acknowledged[meta.partition].append(index)

    futures = []
    with KillLeader(cluster, topic, lambda: sum(map(len, acknowledged.values())) > 300):
        for index in range(3000):
            future = client.send(topic, payload(index), partition=index % 3)
            future.add_callback(note(index))
            futures.append(future)
            if index % 20 == 0:
                time.sleep(0.005)  # a steady stream, so that the leader dies in its middle
        client.flush(90)
    assert all(future.succeeded() for future in futures)
    reader = consumer(cluster, topic, fresh("g"))
    assert_read_once_in_order(acknowledged, read(reader, 3000))
    reader.close()
    client.close()
