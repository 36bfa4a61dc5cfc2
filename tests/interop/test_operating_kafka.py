"""Our doctor, balance and measures on a cluster of Apache Kafka alone: they speak the protocol only."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.main import main
from barnabas.client.network.connection import ChannelError
from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from tests.peers import CLASS_PATH

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow]
CLUSTER_ID = "b3BlcmF0aW5nLWthZmthMQ"
JVM = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH]
PATIENCE_S = 120.0
TRIES = 240
HOUR_MS = 3_600_000


class KafkaNodes:
    """A combined node and a broker of Apache Kafka."""

    def __init__(self, directory: Path) -> None:
        controller, *ports = FreePorts().take(3)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.processes = []
        for node, port in enumerate(ports, 1):
            file = directory / f"{node}.properties"
            file.write_text(
                f"process.roles={'broker,controller' if node == 1 else 'broker'}\n"
                f"node.id={node}\n"
                f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
                "controller.listener.names=CONTROLLER\n"
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
                f"listeners=PLAINTEXT://127.0.0.1:{port}"
                + (f",CONTROLLER://127.0.0.1:{controller}\n" if node == 1 else "\n")
                + f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
                f"log.dirs={directory / f'data-{node}'}\n"
                "offsets.topic.replication.factor=1\n"
                "offsets.topic.num.partitions=1\n"
                "group.initial.rebalance.delay.ms=0\n"
            )
            words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)]
            subprocess.run([*JVM, *words], check=True, capture_output=True, timeout=PATIENCE_S)
            log = (directory / f"{node}.log").open("wb")
            started = subprocess.Popen([*JVM, "kafka.Kafka", str(file)], stdout=log, stderr=log)
            self.processes.append(started)

    def wait(self) -> None:
        """Until both brokers take part."""
        with connect(self.bootstrap) as client:
            for _ in range(TRIES):
                try:
                    if len(client.describe_cluster().brokers) == len(self.processes):
                        return
                except (ChannelError, KafkaError):
                    pass
                client.run_for(500)
        raise AssertionError("the brokers of Apache Kafka did not come")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNodes]:
    nodes = KafkaNodes(tmp_path_factory.mktemp("kafka"))
    try:
        nodes.wait()
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture
def client(kafka: KafkaNodes) -> Iterator[Connected]:
    with connect(kafka.bootstrap) as connected:
        yield connected


class Command:
    """Runs a command against Apache Kafka and reads its JSON."""

    def __init__(self, kafka: KafkaNodes, capfd: pytest.CaptureFixture[str]) -> None:
        self.where = ["--bootstrap-server", kafka.bootstrap, "--json"]
        self.capfd = capfd

    def __call__(self, *words: str, status: int = 0) -> Any:
        self.capfd.readouterr()
        got = main([*words, *self.where])
        printed = self.capfd.readouterr()
        assert got == status, printed
        return json.loads(printed.out)


@pytest.fixture
def run(kafka: KafkaNodes, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(kafka, capfd)


def test_a_skewed_cluster_of_kafka_is_measured_and_balanced(
    run: Command, client: Connected
) -> None:
    client.create_topic("skewed", assignments={index: [1] for index in range(4)})
    with client.producer() as producer:
        for number in range(40):
            producer.send(ProducerRecord("skewed", bytes(100_000), partition=number % 4))
    (topic,) = [t for t in run("topics", "list", "--sizes") if t["name"] == "skewed"]
    assert topic["records"] == 40 and topic["leader_bytes"] > 4_000_000
    words = ["cluster", "balance", "--sample", "0.5", "--tolerance", "25"]
    planned = run(*words, "--dry-run")
    assert planned["replicas_copied"] == 2 and not planned["executed"]
    run(*words, "--throttle", "1G")
    placed = client.topic("skewed").partitions.values()
    assert sorted(tuple(partition.replicas) for partition in placed) == [(1,), (1,), (2,), (2,)]
    assert run(*words, "--dry-run")["replicas_copied"] == 0
    assert run("reassign", "throttle") == {}


def test_a_group_of_kafka_lags_in_seconds(run: Command, client: Connected) -> None:
    client.create_topic("lagging", 1, 1)
    stamp = time.time_ns() // 1_000_000 - HOUR_MS
    with client.producer() as producer:
        for _ in range(10):
            producer.send(ProducerRecord("lagging", b"x", timestamp_ms=stamp))
    at = {TopicPartition("lagging", 0): CommittedOffset(4)}
    client.call(commit(client.client, GroupIdentity("laggards"), at))
    (group,) = run("groups", "lag", "laggards")
    assert group["lag"] == 6 and 3600 <= group["seconds"] < 3720
    described = run("groups", "describe", "laggards")
    assert described["partitions"][0]["lag"] == 6


def test_the_doctor_finds_what_is_wrong_with_kafka(
    run: Command, client: Connected, kafka: KafkaNodes
) -> None:
    found = run("doctor", "--sample", "0", status=10)
    codes = {finding["code"] for finding in found["findings"]}
    assert {"one-replica", "lone-voter", "auto-create"} <= codes
    assert not codes & {"not-looked-at", "clock-skew", "fenced-broker", "low-feature-level"}
    kafka.processes[1].kill()
    for _ in range(TRIES):
        if any(broker.fenced for broker in client.describe_cluster().brokers):
            break
        client.run_for(500)
    found = run("doctor", "--sample", "0", status=20)
    assert found["worst"] == "critical"
    codes = {finding["code"] for finding in found["findings"]}
    assert {"fenced-broker", "offline-partition"} <= codes
