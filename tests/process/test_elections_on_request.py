"""``barnabas leaders elect`` on real nodes: Kafka's file of partitions, and an unclean election that loses
what the dead leader alone had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


def create(cluster: Cluster, topic: str, placed: str) -> None:
    words = ["topics", "create", topic, "--replica-assignment", placed, "-b", cluster.bootstrap]
    told = barnabas(*words)
    assert told.returncode == 0, told.stderr


def write(cluster: Cluster, topic: str, *values: bytes) -> None:
    """Acknowledged by all of the ISR of partition 0."""
    with connect(cluster.bootstrap) as client, client.producer() as producer:
        for value in values:
            producer.send(ProducerRecord(topic, value, partition=0))


def partition(cluster: Cluster, topic: str, index: int = 0) -> Any:
    with connect(cluster.bootstrap) as client:
        return client.topic(topic).partitions[index]


def elect(cluster: Cluster, *words: str, status: int = 0) -> list[dict[str, Any]]:
    told = barnabas("leaders", "elect", *words, "--json", "-b", cluster.bootstrap)
    assert told.returncode == status, told.stdout + told.stderr
    rows: list[dict[str, Any]] = json.loads(told.stdout)
    return rows


def file_of(home: Path, *partitions: tuple[str, int]) -> str:
    """In the form of kafka-leader-election's --path-to-json-file."""
    file = home / "partitions.json"
    named = [{"topic": topic, "partition": index} for topic, index in partitions]
    file.write_text(json.dumps({"partitions": named}))
    return str(file)


def test_an_unclean_election_loses_what_the_dead_leader_alone_had(
    cluster: Cluster, tmp_path: Path
) -> None:
    create(cluster, "torn", "2:3")
    create(cluster, "whole", "1:3")
    write(cluster, "torn", b"both have it")
    cluster.kill(3)
    cluster.wait_for(lambda: list(partition(cluster, "torn").isr) == [2], "the ISR to shrink")
    write(cluster, "torn", b"only 2 has it")
    cluster.kill(2)
    cluster.restart(3)
    cluster.wait_for(lambda: partition(cluster, "torn").leader == -1, "no leader", 60)
    cluster.wait_for(lambda: list(partition(cluster, "whole").isr) == [1, 3], "the other topic")
    refused = elect(cluster, "--topic", "torn", status=1)
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in refused[0]["outcome"]

    words = ["--type", "unclean", "--file", file_of(tmp_path, ("torn", 0), ("whole", 0))]
    asks = barnabas("leaders", "elect", *words, "-b", cluster.bootstrap)
    assert asks.returncode == 2 and "there is no terminal" in asks.stderr
    assert partition(cluster, "torn").leader == -1
    torn, whole = elect(cluster, *words, "--yes")
    assert torn["partition"] == "torn-0" and torn["outcome"] == "elected"
    assert whole["outcome"].startswith("broker 1 leads it")
    cluster.wait_for(lambda: partition(cluster, "torn").leader == 3, "the only live replica")
    write(cluster, "torn", b"after the loss")

    cluster.restart(2)
    cluster.wait_for(lambda: sorted(partition(cluster, "torn").isr) == [2, 3], "the return of 2")
    assert values_of(cluster, "torn", 2) == [b"both have it", b"after the loss"]
    told = barnabas("cluster", "events", "--about", "torn", "-b", cluster.bootstrap)
    assert "unclean" in told.stdout, told.stdout


def values_of(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    """The first records of partition 0, and that there is no further one."""
    settings = ConsumerSettings(auto_offset_reset="earliest")
    with connect(cluster.bootstrap) as client, client.consumer("readers", settings) as consumer:
        consumer.inner.subscribe([topic])
        found: list[bytes | None] = []
        while len(found) < count:
            found += [record.value for record in consumer.poll(200)]
        return found


def test_a_file_of_partitions_is_what_the_tool_of_kafka_takes(
    cluster: Cluster, tmp_path: Path
) -> None:
    create(cluster, "named", "1:2,2:1")
    file = file_of(tmp_path, ("named", 0), ("named", 1), ("nix", 0))
    rows = {row["partition"]: row for row in elect(cluster, "--path-to-json-file", file, status=1)}
    assert rows["named-0"]["outcome"] == "the preferred replica 1 leads already"
    assert rows["named-1"]["outcome"] == "the preferred replica 2 leads already"
    assert "there is no such topic or partition" in rows["nix-0"]["outcome"]
    wrong = tmp_path / "wrong.json"
    for text in ("", "{}", '{"partitions": [{"topic": "named"}]}', '{"partitions": [1]}'):
        wrong.write_text(text)
        told = barnabas("leaders", "elect", "--file", str(wrong), "-b", cluster.bootstrap)
        assert told.returncode == 2 and "names no partitions" in told.stderr


def test_replicas_are_placed_by_hand_and_mistakes_are_refused(cluster: Cluster) -> None:
    create(cluster, "placed", "3:1, 1:2")
    assert list(partition(cluster, "placed", 0).replicas) == [3, 1]
    assert list(partition(cluster, "placed", 1).replicas) == [1, 2]
    words = ["topics", "create", "wrong", "-b", cluster.bootstrap, "--replica-assignment"]
    for text, status, why in (
        ("1:x", 2, "takes ID:ID"),
        ("1,,2", 2, "takes ID:ID"),
        ("1:1", 1, "INVALID_REPLICA_ASSIGNMENT"),
        ("9", 1, "INVALID_REPLICA_ASSIGNMENT"),
    ):
        told = barnabas(*words, text)
        assert told.returncode == status and why in told.stderr, told
    told = barnabas(*words, "1", "-p", "1")
    assert told.returncode == 2 and "determines the number of partitions" in told.stderr
