"""An Apache Kafka broker in our cluster: it registers, follows our metadata, replicates, leads, dies.

Our nodes are quorum and controller; what they write and answer is read by Java, and what Java
asks is answered by them.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.peers import LIBS

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
]
KAFKA_ID = 10
PATIENCE_S = 60.0
RECORDS = 2000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


class KafkaBroker:
    """One process of Apache Kafka that is a broker only."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        node = cluster.node(cluster.node_ids[0])
        properties = Path(node["properties"]).read_text()
        meta = (Path(_value(properties, "log.dirs")) / "meta.properties").read_text()
        self.file = directory / "server.properties"
        self.file.write_text(
            "process.roles=broker\n"
            f"node.id={KAFKA_ID}\n"
            f"controller.quorum.voters={_value(properties, 'controller.quorum.voters')}\n"
            "controller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://127.0.0.1:0\n"
            f"log.dirs={directory / 'data'},{directory / 'data2'}\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        )
        self._run("kafka.tools.StorageTool", "format", "-t", _value(meta, "cluster.id"))
        self.log = (directory / "kafka.log").open("wb")
        self.process = subprocess.Popen(
            ["java", "-Xmx400m", "-cp", f"{LIBS}/*", "kafka.Kafka", str(self.file)],
            stdout=self.log,
            stderr=self.log,
        )

    def _run(self, main: str, *words: str) -> None:
        subprocess.run(
            ["java", "-cp", f"{LIBS}/*", main, *words, "-c", str(self.file)],
            check=True,
            capture_output=True,
            timeout=PATIENCE_S,
        )

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


def _value(text: str, key: str) -> str:
    found = re.search(rf"^{re.escape(key)}=(.*)$", text, re.MULTILINE)
    assert found is not None, key
    return found.group(1).strip()


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
            "nobody is led by the dead broker",
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
