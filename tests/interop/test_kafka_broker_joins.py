"""An Apache Kafka broker in our cluster: it registers, follows our metadata, replicates, leads, dies.

Our nodes are quorum and controller; what they write and answer is read by Java, and what Java
asks is answered by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.interop.kafka_broker import KAFKA_ID, KafkaBroker
from tests.peers import RELEASE

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
]
PATIENCE_S = 60.0
RECORDS = 2000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, release=RELEASE) as cluster:
        yield cluster


def wait_for(what: str, condition: Callable[[], bool]) -> float:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < PATIENCE_S, what
        time.sleep(0.05)
    return time.monotonic() - begun


def test_it_registers_replicates_leads_and_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def partitions() -> dict[int, Any]:
        found: dict[int, Any] = client.list_topics("mix", timeout=10).topics["mix"].partitions
        return found

    kafka = KafkaBroker(cluster, tmp_path)
    try:
        wait_for("the Java broker is listed", lambda: KAFKA_ID in client.list_topics().brokers)
        topic = admin.NewTopic("mix", num_partitions=4, replication_factor=4)
        client.create_topics([topic])["mix"].result()
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0}
        )
        failed: list[Any] = []
        for i in range(RECORDS):
            producer.produce(
                "mix",
                b"%d" % i,
                partition=i % 4,
                on_delivery=lambda error, message: failed.append(error) if error else None,
            )
        assert producer.flush(PATIENCE_S) == 0 and not failed
        wait_for("every ISR is whole", lambda: all(len(p.isrs) == 4 for p in partitions().values()))
        assert KAFKA_ID in {p.leader for p in partitions().values()}
        kafka.kill()
        wait_for(
            "no partition is led by the dead broker",
            lambda: all(
                p.leader not in (KAFKA_ID, -1) and KAFKA_ID not in p.isrs
                for p in partitions().values()
            ),
        )
        # A new leader tells no end before its high watermark has reached its epoch.
        wait_for("all that was acknowledged is there", lambda: _count(cluster.bootstrap) == RECORDS)
    finally:
        kafka.kill()


def _count(bootstrap: str) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "count", "log_level": 0}
    )
    try:
        ends = {}
        for index in range(4):
            at = confluent_kafka.TopicPartition("mix", index)
            try:
                ends[index] = consumer.get_watermark_offsets(at, timeout=10)
            except confluent_kafka.KafkaException:
                return -1
        return sum(high - low for low, high in ends.values())
    finally:
        consumer.close()
