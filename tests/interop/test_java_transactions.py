"""Kafka's own transactional clients, Kafka Streams and ``kafka-transactions`` against our nodes."""

from __future__ import annotations

import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.client.offsets import EARLIEST
from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.client.records import ConsumerRecord, ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.record.builder import build_batch
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.interop.java_programs import Program
from tests.peers import CLASS_PATH

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process]
PARTITIONS = 3
UNVERIFIED = "transaction.partition.verification.enable"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": "200", UNVERIFIED: "false"}
    with Cluster(nodes=3, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def connected(cluster: Cluster) -> Iterator[Connected]:
    connected = connect(cluster.bootstrap)
    yield connected
    connected.close()


def feed(connected: Connected, topic: str, count: int) -> None:
    with connected.producer() as producer:
        for number in range(count):
            for partition in range(PARTITIONS):
                key = b"k%d" % (number % 7)
                producer.send(ProducerRecord(topic, b"%d" % number, key, partition=partition))


def committed_of(connected: Connected, topic: str) -> list[ConsumerRecord]:
    """Every committed record that is there now."""
    partitions = connected.partitions_of([topic])
    settings = ConsumerSettings(
        auto_offset_reset="earliest", fetch=FetchSettings(read_committed=True)
    )
    consumer = connected.consumer(settings=settings)
    consumer.inner.assign(dict.fromkeys(partitions, EARLIEST))
    ends = {tp: found.offset for tp, found in connected.offsets(partitions).items()}
    deadline, read = time.monotonic() + 60, list[ConsumerRecord]()
    while any((consumer.inner.position(tp) or 0) < ends[tp] for tp in partitions):
        assert time.monotonic() < deadline, "a transaction is open"
        read += consumer.poll(200)
    consumer.close()
    return sorted(read, key=lambda record: (record.partition, record.offset))


def test_java_copies_each_record_once_through_its_own_death_and_a_leader_s(
    cluster: Cluster, connected: Connected, tmp_path: Path
) -> None:
    count = 1500
    for topic in ("source", "target"):
        connected.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    feed(connected, "source", count)
    arguments = (cluster.bootstrap, "source", "target", "copiers", "copier", str(count * 3))
    first = Program("TransactionalCopy", *arguments, log=tmp_path / "first.log")
    try:
        first.wait_for_lines("committed", 4)
    finally:
        first.kill()
    second = Program("TransactionalCopy", *arguments, log=tmp_path / "second.log")
    try:
        second.wait_for_lines("committed", 4)
        victim = connected.topic("target").partitions[0].leader
        cluster.kill(victim)
        try:
            assert second.wait() == 0, second.log.read_text()[-2_000:]
        finally:
            cluster.restart(victim)
    finally:
        second.kill()
    values: dict[int, list[int]] = defaultdict(list)
    for record in committed_of(connected, "target"):
        values[record.partition].append(int(record.value or b""))
    assert values == {partition: list(range(count)) for partition in range(PARTITIONS)}


def test_kafka_streams_counts_exactly_once_through_its_own_death(
    cluster: Cluster, connected: Connected, tmp_path: Path
) -> None:
    count = 700
    connected.create_topic("words", PARTITIONS, 3)
    connected.create_topic("counts", PARTITIONS, 3)
    arguments = (cluster.bootstrap, "words", "counts", "counter", str(tmp_path / "state"))
    feed(connected, "words", count)
    first = Program("CountingStream", *arguments, log=tmp_path / "first.log")
    try:
        first.wait_for_lines("started")
        _wait_for_counts(connected, 300)
    finally:
        first.kill()
    feed(connected, "words", count)
    second = Program("CountingStream", *arguments, log=tmp_path / "second.log")
    try:
        second.wait_for_lines("started")
        _wait_for_counts(connected, 2 * count * PARTITIONS, exactly=True)
        second.end_input()
        assert second.wait() == 0
    finally:
        second.kill()
    counts: dict[bytes | None, list[int]] = defaultdict(list)
    for record in committed_of(connected, "counts"):
        counts[record.key].append(int(record.value or b""))
    # Each key is in three partitions of the input, and is counted in each.
    each = 2 * count // 7
    wanted = sorted(list(range(1, each + 1)) * PARTITIONS)
    assert {key: sorted(found) for key, found in counts.items()} == {
        b"k%d" % at: wanted for at in range(7)
    }


def _wait_for_counts(connected: Connected, count: int, *, exactly: bool = False) -> None:
    deadline, found = time.monotonic() + 120, 0
    while found < count:
        assert time.monotonic() < deadline, f"{found} counts"
        time.sleep(0.3)
        try:
            found = len(committed_of(connected, "counts"))
        except AssertionError:
            continue
    assert not exactly or found == count


def tool(cluster: Cluster, *arguments: str) -> str:
    ended = subprocess.run(
        ["java", "-Xmx200m", "-cp", CLASS_PATH, "org.apache.kafka.tools.TransactionsCommand",
         "--bootstrap-server", cluster.bootstrap, *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout


def test_kafka_transactions_lists_describes_finds_and_aborts(
    cluster: Cluster, connected: Connected
) -> None:
    connected.create_topic("tool", 1, 3)
    tp = TopicPartition("tool", 0)
    producer = TransactionalProducer(connected.client, "tooled")
    connected.call(producer.init())
    producer.begin()
    producer.send(ProducerRecord("tool", b"a", partition=0))
    connected.call(producer._producer.flush())
    listed = tool(cluster, "list")
    assert "tooled" in listed
    assert "Ongoing" in listed
    described = tool(cluster, "describe", "--transactional-id", "tooled")
    assert "tool-0" in described
    _hang(connected, tp)
    producers = tool(cluster, "describe-producers", "--topic", "tool", "--partition", "0")
    assert "888888" in producers
    # It was silent for an hour: 15 minutes are the longest that a transaction may take.
    hanging = tool(cluster, "find-hanging", "--topic", "tool")
    assert [line.split()[2] for line in hanging.splitlines()[1:]] == ["888888"]
    start = hanging.splitlines()[1].split()[5]
    tool(cluster, "abort", "--topic", "tool", "--partition", "0", "--start-offset", start)
    assert "888888" not in tool(cluster, "find-hanging", "--topic", "tool")
    connected.call(producer.commit())
    assert [record.value for record in committed_of(connected, "tool")] == [b"a"]


def _hang(connected: Connected, tp: TopicPartition) -> None:
    """A transaction that no coordinator knows of."""
    batch = build_batch(
        [(b"k", b"late")],
        timestamp_ms=time.time_ns() // 1_000_000 - 3_600_000,
        producer_id=888_888,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=tp.partition, records=batch)
    topic = TopicProduceData(name=tp.topic, partition_data=[data])
    request = ProduceRequest(
        transactional_id="lost", acks=-1, timeout_ms=10_000, topic_data=[topic]
    )
    leader = connected.topic(tp.topic).partitions[tp.partition].leader
    endpoint = connected.client.cluster.brokers[leader]
    answer = connected.call(connected.client.send(endpoint, request, version=11))
    assert answer.responses[0].partition_responses[0].error_code == 0
