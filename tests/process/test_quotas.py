"""Quotas and users on a cluster of processes: set by the command line, kept to by another's clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.consumers.share_consumer import ShareConsumerSettings
from barnabas.client.consumers.share_session import ShareFetchSettings
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
LIMIT = 500_000
SECRET = "correct-horse-battery-staple"
VALUE = b"v" * 10_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(10)
        yield cluster


def alter(cluster: Cluster, *words: str) -> None:
    done = barnabas("quotas", "alter", *words, "--bootstrap", cluster.bootstrap)
    assert done.returncode == 0, done.stderr


def test_a_producer_and_a_consumer_are_held_to_their_rates(cluster: Cluster) -> None:
    alter(cluster, "--user", "ANONYMOUS", "--client-id", "slow",
          "--set", f"producer_byte_rate={LIMIT}", "--set", f"consumer_byte_rate={LIMIT}")  # fmt: skip
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "slow",
                         "batch.size": 50_000, "linger.ms": 1})  # fmt: skip
    began = time.monotonic()
    for _ in range(200):  # 2 MB
        producer.produce("t", VALUE, partition=0)
        producer.poll(0)
    producer.flush(30)
    assert time.monotonic() - began > (200 * len(VALUE) - 2 * LIMIT) / LIMIT
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "client.id": "slow",
                         "group.id": "g", "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe(["t"])
    began, count = 0.0, 0
    while count < 200:
        for message in consumer.consume(50, 1.0):
            assert message.error() is None
            began = began or time.monotonic()
            count += 1
    assert time.monotonic() - began > (200 * len(VALUE) - 2 * LIMIT) / LIMIT
    consumer.close()
    told = barnabas("quotas", "describe", "--client-id", "slow", "--json",
                    "--bootstrap", cluster.bootstrap)  # fmt: skip
    assert [(row["quota"], row["limit"]) for row in json.loads(told.stdout)] == [
        ("consumer_byte_rate", LIMIT), ("producer_byte_rate", LIMIT)
    ]  # fmt: skip
    alter(cluster, "--user", "ANONYMOUS", "--client-id", "slow",
          "--delete", "producer_byte_rate", "--delete", "consumer_byte_rate")  # fmt: skip
    told = barnabas("quotas", "describe", "--json", "--bootstrap", cluster.bootstrap)
    assert json.loads(told.stdout) == []


def test_a_member_of_a_share_group_is_held_to_its_rate(cluster: Cluster) -> None:
    """What is delivered to it counts as what other consumers fetch, under the same key."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("shared", 1)])["shared"].result(10)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(200):  # 2 MB
        producer.produce("shared", VALUE, partition=0)
    producer.flush(30)
    alter(cluster, "--client-id", "sharing", "--set", f"consumer_byte_rate={LIMIT}")
    barnabas("configs", "alter", "--group", "sg", "--set", "share.auto.offset.reset=earliest",
             "--bootstrap", cluster.bootstrap)  # fmt: skip
    settings = ShareConsumerSettings(fetch=ShareFetchSettings(bytes_max=100_000))
    with (
        connect(cluster.bootstrap, client_id="sharing") as connected,
        connected.share_consumer("sg", settings) as member,
    ):
        member.subscribe(["shared"])
        began, count = 0.0, 0
        while count < 200:
            found = member.poll(1_000)
            began = began or (time.monotonic() if found else 0.0)
            count += len(found)
        took_s = time.monotonic() - began
    assert count == 200
    assert took_s > (200 * len(VALUE) - 2 * LIMIT) / LIMIT


def test_a_password_comes_from_a_variable_and_is_written_nowhere(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_ALICE", SECRET)
    at = ("--bootstrap", cluster.bootstrap)
    refused = barnabas("users", "add", "alice", *at)
    assert refused.returncode == 2 and "--password-env" in refused.stderr
    added = barnabas("users", "add", "alice", "--password-env", "SECRET_OF_ALICE", *at)
    assert added.returncode == 0, added.stderr
    listed = barnabas("users", "list", "--json", *at)
    assert json.loads(listed.stdout) == [
        {"name": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    ]
    removed = barnabas("users", "remove", "alice", "--yes", *at)
    assert removed.returncode == 0, removed.stderr
    written = [path for path in cluster.directory.rglob("*") if path.is_file()]
    for text in (added, listed, removed):
        assert SECRET not in text.stdout + text.stderr
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
