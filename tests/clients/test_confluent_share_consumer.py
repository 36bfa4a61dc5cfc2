"""confluent-kafka's share consumer (librdkafka) against a cluster of processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from bench.wire import leader_of
from tests.clients.checks import fresh, number, payload, wait_for
from tests.clients.test_confluent_kafka import create, producer
from tests.process.launch import barnabas

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = [pytest.mark.process, pytest.mark.slow]
RECORDS = 300
SECONDS = 90


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Three partitions with the records 0 to `RECORDS`; the group of that name begins at their start."""
    name = fresh("shared")
    create(cluster, name)
    client = producer(cluster)
    for index in range(RECORDS):
        client.produce(name, payload(index), partition=index % 3)
    assert client.flush(30) == 0
    done = barnabas(
        "configs", "alter", "--group", name, "-s", "share.auto.offset.reset=earliest",
        "-b", cluster.bootstrap,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return name


def member(cluster: Cluster, topic: str, mode: str) -> Any:
    client = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "share.acknowledgement.mode": mode,
        }
    )
    client.subscribe([topic])
    return client


def take(client: Any, judge: Callable[[Any], None], enough: Callable[[], bool]) -> None:
    """Give each record to `judge` until it is `enough`."""

    def polled() -> bool:
        for message in client.poll(0.5):
            assert message.error() is None, message.error()
            judge(message)
        return enough()

    wait_for(polled, "records", SECONDS)


def test_two_members_take_each_record_once(cluster: Cluster, topic: str) -> None:
    found: Counter[int] = Counter()
    with member(cluster, topic, "implicit") as one, member(cluster, topic, "implicit") as other:
        members = [one, other]

        def all_taken() -> bool:
            for client in members:
                found.update(number(m.value()) for m in client.poll(0.2) if not m.error())
            return len(found) == RECORDS

        wait_for(all_taken, f"{RECORDS} records", SECONDS)
    assert found == Counter(range(RECORDS))


def test_a_member_accepts_releases_and_rejects(cluster: Cluster, topic: str) -> None:
    """Each tenth record is released once, each seventh of the others is rejected."""
    kinds = confluent_kafka.AcknowledgeType
    ended: Counter[int] = Counter()
    deliveries: dict[int, int] = {}

    with member(cluster, topic, "explicit") as client:

        def judge(message: Any) -> None:
            value = number(message.value())
            deliveries[value] = message.delivery_count()
            if value % 10 == 0 and message.delivery_count() == 1:
                client.acknowledge(message, kinds.RELEASE)
                return
            client.acknowledge(message, kinds.REJECT if value % 7 == 0 else kinds.ACCEPT)
            ended[value] += 1

        take(client, judge, lambda: len(ended) == RECORDS)
        assert all(error is None for error in client.commit_sync().values())
    assert ended == Counter(range(RECORDS))
    assert {count for value, count in deliveries.items() if value % 10 == 0} == {2}
    assert {count for value, count in deliveries.items() if value % 10} == {1}


def test_a_member_loses_no_record_through_the_death_of_a_leader(
    cluster: Cluster, topic: str
) -> None:
    found: Counter[int] = Counter()
    killed = -1
    with member(cluster, topic, "implicit") as client:
        take(client, lambda m: found.update([number(m.value())]), lambda: bool(found))
        killed = leader_of(cluster.bootstrap, topic, 0)
        cluster.kill(killed)
        more = producer(cluster)
        for index in range(RECORDS, 2 * RECORDS):
            more.produce(topic, payload(index), partition=index % 3)
        assert more.flush(60) == 0
        take(
            client,
            lambda m: found.update([number(m.value())]),
            lambda: len(found) == 2 * RECORDS,
        )
    cluster.restart(killed)
    assert set(found) == set(range(2 * RECORDS))
