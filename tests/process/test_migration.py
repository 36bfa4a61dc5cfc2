"""A cluster leaves ZooKeeper, comes back, and leaves it again: every record, offset, configuration, quota and
user goes with it. Needs Java and pyspark, whose jars have ZooKeeper's server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cli.local.free_ports import FreePorts
from barnabas.config.properties import format_properties, parse_properties
from tests.process.ensembles import ensemble
from tests.process.launch import Up, barnabas, wait_until

pytestmark = pytest.mark.process
TOPIC, LATER, GROUP = "kept", "later", "readers"
PARTITIONS, EACH = 3, 200
OF_ZOOKEEPER = ("broker.id", "zookeeper.connect")


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    """Of a ZooKeeper that runs."""
    with ensemble(tmp_path) as servers:
        yield f"{servers.servers[0].address}/kafka"


class Nodes:
    """The same three nodes under KRaft, on the directories that they had on ZooKeeper."""

    def __init__(self, data: Path) -> None:
        homes = sorted(data.glob("node-*"))
        ports = FreePorts().take(len(homes))
        voters = ",".join(f"{at}@127.0.0.1:{port}" for at, port in enumerate(ports, 1))
        self.files: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        for node_id, (home, port) in enumerate(zip(homes, ports, strict=True), 1):
            values = parse_properties((home / "server.properties").read_text())
            for key in OF_ZOOKEEPER:
                del values[key]
            values |= {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "listeners": f"{values['listeners']},CONTROLLER://127.0.0.1:{port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
            }
            file = home / "kraft.properties"
            file.write_text(format_properties(values, ""))
            self.files.append(file)
        self.metadata = values["log.dirs"]

    @property
    def names(self) -> list[str]:
        return [str(file) for file in self.files]

    def start(self) -> None:
        for file in self.files:
            with file.with_suffix(".log").open("ab") as log:
                command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
                self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(30)
        self.processes.clear()


def write(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def read(bootstrap: str, topic: str, count: int) -> list[int]:
    """Everything there is, sorted."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "no group", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(places)
    found: list[int] = []

    def enough() -> bool:
        found.extend(int(m.value()) for m in consumer.consume(500, 0.2) if m.error() is None)
        return len(found) >= count

    wait_until(enough, f"{count} records of {topic}")
    found.extend(int(m.value()) for m in consumer.consume(500, 0.5) if m.error() is None)
    consumer.close()
    return sorted(found)


def committed(bootstrap: str, offset: int | None = None) -> int:
    """The group's offset in partition 0, which is `offset` from now on."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    if offset is not None:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = NewTopic(topic, PARTITIONS, 3, config={"retention.ms": "123456789"})
    admin.create_topics([wanted])[topic].result(30)


def topic_id(bootstrap: str) -> str:
    found = json.loads(ok("topics", "describe", TOPIC, "--bootstrap", bootstrap, "--json"))
    return str(found[0]["topic_id"])


def ok(*arguments: str) -> str:
    done = barnabas(*arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def up_on(data: Path, connect: str) -> Up:
    started = Up(data, "--coordination", "zookeeper", "--zookeeper", connect)
    started.wait_for_line("bootstrap: ")
    return started


@pytest.mark.timeout(240)
def test_a_cluster_leaves_zookeeper_and_may_come_back(
    tmp_path: Path, connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "cluster"
    up = up_on(data, connect)
    try:
        bootstrap = str(up.state["bootstrap"])
        create(bootstrap, TOPIC)
        write(bootstrap, TOPIC, range(EACH))
        assert committed(bootstrap, 17) == 17
        at = ("--bootstrap", bootstrap)
        ok("quotas", "alter", "--user", "alice", "--set", "producer_byte_rate=1000000", *at)
        monkeypatch.setenv("SECRET_OF_ALICE", "wonder")
        ok("users", "add", "alice", "--password-env", "SECRET_OF_ALICE", *at)
        running = barnabas("migrate", "copy", str(data / "none"), "--zookeeper", connect)
        assert running.returncode != 0
        refused = barnabas("migrate", "check", "--zookeeper", connect)
        assert refused.returncode == 1 and "are registered: stop them" in refused.stdout
        known = topic_id(bootstrap)
    finally:
        up.end()

    nodes = Nodes(data)
    ok("migrate", "check", "--zookeeper", connect)
    ok("migrate", "copy", *nodes.names, "--zookeeper", connect)
    try:
        nodes.start()
        assert read(bootstrap, TOPIC, EACH) == list(range(EACH))
        assert committed(bootstrap) == 17
        assert topic_id(bootstrap) == known
        ok("migrate", "compare", "--zookeeper", connect, *at)
        assert "producer_byte_rate" in ok("quotas", "describe", *at)
        assert "alice" in ok("users", "list", *at)
        assert "123456789" in ok("configs", "describe", "--topic", TOPIC, *at)
        create(bootstrap, LATER)
        write(bootstrap, TOPIC, range(EACH, 2 * EACH))
        write(bootstrap, LATER, range(EACH))
        differing = barnabas("migrate", "compare", "--zookeeper", connect, *at)
        assert differing.returncode == 1 and f"topic {LATER}" in differing.stdout
    finally:
        nodes.stop()

    arguments = ("--zookeeper", connect, "--metadata", nodes.metadata, "--yes")
    ok("migrate", "revert", *nodes.names, *arguments)
    up = up_on(data, connect)
    try:
        assert read(bootstrap, TOPIC, 2 * EACH) == list(range(2 * EACH))
        assert read(bootstrap, LATER, EACH) == list(range(EACH))
        write(bootstrap, LATER, range(EACH, 2 * EACH))
    finally:
        up.end()

    ok("migrate", "copy", *nodes.names, "--zookeeper", connect)
    try:
        nodes.start()
        assert read(bootstrap, LATER, 2 * EACH) == list(range(2 * EACH))
        assert committed(bootstrap) == 17
        ok("migrate", "finalize", "--zookeeper", connect, "--yes", *at)
    finally:
        nodes.stop()
    final = barnabas("migrate", "revert", *nodes.names, *arguments)
    assert final.returncode != 0 and "the migration is final" in final.stderr
