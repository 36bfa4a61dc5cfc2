"""A controller of Apache Kafka adds partitions to the topics of coordinators.

Brokers of ours hash names by the number that they know, as brokers of Kafka's do until their process ends,
and also after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop.mixed_cluster import OURS, THEIRS, MixedCluster, mixed_cluster, wait_until
from tests.interop.test_brokers_under_kafka_controller import Mixed, wait_for_brokers

pytestmark = [pytest.mark.process, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
GROUPS = [f"g{number}" for number in range(12)]
OFFSETS = "__consumer_offsets"
TOPIC = "t"
COMMITTED = 7


def consumer(bootstrap: str, group: str) -> Any:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    return Consumer({**settings, "enable.auto.commit": False})


def commit(bootstrap: str) -> None:
    for group in GROUPS:
        client = consumer(bootstrap, group)
        offsets = [TopicPartition(TOPIC, 0, COMMITTED)]
        until = time.monotonic() + 60
        while True:
            try:
                client.commit(offsets=offsets, asynchronous=False)
                break
            except KafkaException:  # the coordinator's topic is being created
                assert time.monotonic() < until
        client.close()


def committed(bootstrap: str) -> list[int]:
    """What each group has, by the brokers that `bootstrap` names. While a coordinator moves, librdkafka gives
    NOT_COORDINATOR to its caller."""
    found: list[int] = []

    def ask(group: str) -> bool:
        client = consumer(bootstrap, group)
        try:
            (place,) = client.committed([TopicPartition(TOPIC, 0)], timeout=60)
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.NOT_COORDINATOR
            return False
        finally:
            client.close()
        found.append(place.offset)
        return True

    for group in GROUPS:
        wait_until(partial(ask, group), f"{group} has no coordinator")
    return found


def grow(admin: AdminClient, count: int) -> None:
    admin.create_partitions([NewPartitions(OFFSETS, count)])[OFFSETS].result(30)
    wait_until(lambda: size(admin) == count, "the topic has not grown")


def size(admin: AdminClient) -> int:
    return len(admin.list_topics(OFFSETS, timeout=10).topics[OFFSETS].partitions)


@pytest.fixture
def under_kafka(tmp_path: Path) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path)
    try:
        mixed.start("offsets.topic.num.partitions=3\noffsets.topic.replication.factor=2\n")
        yield mixed
    finally:
        mixed.stop()


@pytest.mark.peers("kafka")
def test_brokers_of_ours_keep_the_number_under_a_controller_of_kafka_4(under_kafka: Mixed) -> None:
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in under_kafka.ports)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wait_for_brokers(admin, 2)
    admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result(30)
    commit(bootstrap)
    grow(admin, 7)
    assert committed(bootstrap) == [COMMITTED] * len(GROUPS)
    for broker in (2, 3):
        under_kafka.restart(broker)
        wait_for_brokers(admin, 2)
        wait_until(lambda: is_whole(admin), "a replica is out of an ISR")
        for port in under_kafka.ports:
            assert committed(f"127.0.0.1:{port}") == [COMMITTED] * len(GROUPS)
        said = (under_kafka.directory / f"broker-{broker}.log").read_text()
        assert "coordinator.topic_grew" in said


def is_whole(admin: AdminClient) -> bool:
    found = admin.list_topics(OFFSETS, timeout=10).topics[OFFSETS].partitions.values()
    return all(len(partition.isrs) == len(partition.replicas) for partition in found)


@pytest.mark.peers("kafka39")
def test_brokers_of_ours_and_of_kafka_agree_under_a_controller_of_kafka_3_9(
    tmp_path: Path,
) -> None:
    with mixed_cluster(tmp_path) as cluster:
        for broker in (THEIRS, *OURS):  # theirs comes first, and rules
            cluster.start(broker)
        cluster.create(TOPIC)
        commit(cluster.bootstrap)
        admin = AdminClient(cluster.client())
        grow(admin, 7)
        assert cluster.controller == THEIRS
        check_all_agree(cluster)
        for broker in OURS:
            cluster.kill(broker)
            cluster.restart(broker)
            wait_until(lambda: is_whole(admin), "a replica is out of an ISR")
            check_all_agree(cluster)


def check_all_agree(cluster: MixedCluster) -> None:
    for port in cluster.ports.values():
        assert committed(f"127.0.0.1:{port}") == [COMMITTED] * len(GROUPS), port
