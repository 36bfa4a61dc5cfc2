"""A producer that never stops asking, and what it was promised: for tests that hurt nodes meanwhile."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Self

import confluent_kafka

from barnabas.client.network.channels import ChannelError
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

PACE_S = 0.002
"""Between two records: a steady stream, so that a fault always falls among them."""


class Load:
    """Numbered records by turns to every partition, acks=all, idempotent, until the block ends.

    At the end everything is flushed; a record that failed for good, with all of the client's retries, fails
    the test.
    """

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, pace_s: float = PACE_S
    ) -> None:
        self._pace_s = pace_s
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.failed: list[str] = []
        self._partitions = partitions
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                # What a silent host got is asked again elsewhere after this, not after a minute.
                "socket.timeout.ms": 5000,
                "request.timeout.ms": 5000,
                "log_level": 0,
            }
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def count(self) -> int:
        """Acknowledged so far."""
        return sum(map(len, list(self.acknowledged.values())))

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_more(50)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)
        left = self._producer.flush(60 if kind is None else 1)
        if kind is None:
            assert left == 0 and not self.failed, (left, self.failed[:3])

    def wait_for_more(self, more: int, timeout_s: float = 60) -> None:
        """Until `more` records from now on are acknowledged in every partition."""
        wanted = {p: len(self.acknowledged[p]) + more for p in range(self._partitions)}
        deadline = time.monotonic() + timeout_s
        while any(len(self.acknowledged[p]) < count for p, count in wanted.items()):
            assert time.monotonic() < deadline, (wanted, self.count, self.failed[:3])
            time.sleep(0.01)

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(self._pace_s):
            partition = number % self._partitions
            self._producer.produce(
                self._topic,
                b"%d" % number,
                partition=partition,
                on_delivery=lambda error, message, n=number: self._on_delivery(error, message, n),
            )
            self._producer.poll(0)
            number += 1

    def _on_delivery(self, error: Any, message: Any, number: int) -> None:
        if error is None:
            self.acknowledged[message.partition()].append(number)
        else:
            self.failed.append(f"{number}: {error}")


def check_read_once(cluster: Cluster, topic: str, acknowledged: Mapping[int, list[int]]) -> None:
    """Every acknowledged number is read once and in the order of sending; nothing is read twice.

    A failure names the offsets: one offset twice is a fault of the reader, two offsets one of the log.
    """
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    with connect(cluster.bootstrap) as client:
        for record in client.read([topic]):
            assert record.value is not None
            found[record.partition][int(record.value)].append(record.offset)
    for partition, numbers in acknowledged.items():
        offsets = found[partition]
        twice = {number: places for number, places in offsets.items() if len(places) > 1}
        assert not twice, f"partition {partition} has numbers twice, at these offsets: {twice}"
        wanted = set(numbers)
        assert [number for number in offsets if number in wanted] == numbers, (
            f"partition {partition}"
        )


def view(cluster: Cluster, topic: str) -> dict[int, Any]:
    """Leader and ISR by partition, as the first broker that answers has them; empty where none does."""
    try:
        with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
            return dict(client.topic(topic).partitions)
    except (ChannelError, KafkaError):
        return {}


def led_by(cluster: Cluster, topic: str) -> int | None:
    """The leader of partition 0, -1 for none, as the first broker that answers has it; None where none
    does."""
    found = view(cluster, topic)
    return int(found[0].leader) if found else None


def isr_of(cluster: Cluster, topic: str) -> list[int]:
    """Of partition 0, as the first broker that answers has it; empty where none does."""
    found = view(cluster, topic)
    return list(found[0].isr) if found else []


def wait_for_leader(cluster: Cluster, topic: str, *other_than: int) -> int:
    """Of partition 0. The broker that answers may not know yet that these lead no longer."""

    def leader() -> int:
        found = led_by(cluster, topic)
        return 0 if found in (None, -1, *other_than) else int(found or 0)

    return int(cluster.wait_for(leader, f"another leader of {topic}", 60))


def wait_until_whole(cluster: Cluster, topic: str, timeout_s: float = 60) -> None:
    """Every partition has a leader and all its replicas in the ISR."""

    def whole() -> bool:
        found = view(cluster, topic)
        return bool(found) and all(
            p.leader > 0 and sorted(p.isr) == sorted(p.replicas) for p in found.values()
        )

    cluster.wait_for(whole, f"the whole ISR of {topic}", timeout_s)


def check_replicas_equal(cluster: Cluster, topic: str, partition: int = 0) -> None:
    """The log's bytes are the same on every replica."""
    replicas = view(cluster, topic)[partition].replicas
    at = TopicPartition(topic, partition)

    def bytes_of(node_id: int) -> bytes:
        data = cluster.directory / "cluster" / f"node-{node_id}" / "data"
        files = sorted((data / f"{at.topic}-{at.partition}").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)

    cluster.wait_for(
        lambda: len({bytes_of(node_id) for node_id in replicas}) == 1, f"equal replicas of {at}"
    )
