"""A group that one of our brokers coordinates reads a partition that an Apache Kafka broker leads: its lag in
seconds comes from the Java broker's own log."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.testing.cluster import Cluster
from tests.interop.kafka_broker import KAFKA_ID, KafkaBroker
from tests.peers import RELEASE

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 90.0
TOPIC, GROUP = "java-led", "readers"
RECORDS, READ = 10, 4
AGE_S = 1_000.0
"""The age of the oldest record; each next one is a second younger."""
families_of: Any = text_string_to_metric_families


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, release=RELEASE) as cluster:
        yield cluster


def lags(cluster: Cluster) -> dict[str, float]:
    """The lag of the group in records and in seconds, from the page of its coordinator."""
    found: dict[str, float] = {}
    for node in cluster.node_ids:
        with urllib.request.urlopen(f"{cluster.node(node)['metrics']}/metrics", timeout=30) as page:
            for family in families_of(page.read().decode()):
                for sample in family.samples:
                    if sample.labels.get("topic") == TOPIC and "consumergroup" in sample.labels:
                        found[sample.name] = sample.value
    return found


def commit(servers: dict[str, Any], topic: str, offset: int) -> None:
    """Without members; asked again while the coordinator is being found."""
    reader = confluent_kafka.Consumer({**servers, "group.id": GROUP})

    def committed() -> bool:
        try:
            place = confluent_kafka.TopicPartition(topic, 0, offset)
            reader.commit(offsets=[place], asynchronous=False)
        except confluent_kafka.KafkaException:
            return False
        return True

    wait_for("the offset is committed", committed)
    reader.close()


def wait_for(what: str, condition: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


def test_the_lag_behind_a_java_leader_has_seconds(cluster: Cluster, tmp_path: Path) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    client = admin.AdminClient(servers)
    client.create_topics([admin.NewTopic("early", 1, 3)])["early"].result(PATIENCE_S)
    commit(servers, "early", 0)  # so that one of our brokers coordinates the group
    kafka = KafkaBroker(cluster, tmp_path)
    try:
        wait_for("the Java broker is listed", lambda: KAFKA_ID in client.list_topics().brokers)
        topic = admin.NewTopic(TOPIC, 1, replica_assignment=[[KAFKA_ID]])
        client.create_topics([topic], request_timeout=PATIENCE_S)[TOPIC].result(PATIENCE_S)
        producer, began_ms = confluent_kafka.Producer(servers), time.time() * 1000
        for number in range(RECORDS):
            stamp = int(began_ms - 1000 * (AGE_S - number))
            producer.produce(TOPIC, b"%d" % number, timestamp=stamp)
        assert producer.flush(PATIENCE_S) == 0
        commit(servers, TOPIC, READ)
        name = "kafka_consumergroup_lag_seconds"
        found = wait_for(
            "the group has a lag in seconds", lambda: (f := lags(cluster)).get(name) and f
        )
        passed_s = time.time() - began_ms / 1000
        assert found["kafka_consumergroup_lag"] == RECORDS - READ
        assert found[name] + 0.01 >= AGE_S - READ
        assert found[name] <= AGE_S - READ + passed_s
    finally:
        kafka.kill()
