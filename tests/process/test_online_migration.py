"""A running cluster moves from ZooKeeper to KRaft under load, back, there again, and to the end. Brokers are
restarted one by one, the quorum's leader is killed at each step, and every acknowledged record is there
once. Needs Java and pyspark, whose jars have ZooKeeper's server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperMissing, ZooKeeperServers
from barnabas.config.properties import format_properties
from tests.process.launch import barnabas, wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(400),
]
BROKERS, CONTROLLERS = (1, 2, 3), (101, 102, 103)
PARTITIONS, TOPIC = 3, "numbers"
ENABLE = "zookeeper.metadata.migration.enable"


class Machines:
    """Brokers and controllers as processes, each with a file that changes between its starts."""

    def __init__(self, home: Path, zookeeper: str) -> None:
        self.home, self.zookeeper = home, zookeeper
        ports = FreePorts().take(len(BROKERS) + len(CONTROLLERS))
        self.ports = dict(zip((*BROKERS, *CONTROLLERS), ports, strict=True))
        self.voters = ",".join(f"{one}@127.0.0.1:{self.ports[one]}" for one in CONTROLLERS)
        self.bootstrap = ",".join(f"127.0.0.1:{self.ports[one]}" for one in BROKERS)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def file(self, node: int) -> Path:
        return self.home / f"{node}.properties"

    def _write(self, node: int, values: dict[str, str]) -> None:
        whole = {"log.dirs": str(self.home / f"data-{node}"), **values}
        self.file(node).write_text(format_properties(whole, ""))

    @property
    def of_quorum(self) -> dict[str, str]:
        return {
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def broker(self, node: int, *, migrates: bool) -> None:
        """In ZooKeeper mode."""
        enabled = {**self.of_quorum, ENABLE: "true"} if migrates else {}
        at = f"PLAINTEXT://127.0.0.1:{self.ports[node]}"
        self._write(node, {"broker.id": str(node), "zookeeper.connect": self.zookeeper,
                           "listeners": at, "default.replication.factor": "3",
                           "offsets.topic.replication.factor": "3", **enabled})  # fmt: skip

    def broker_under_kraft(self, node: int) -> None:
        at = f"PLAINTEXT://127.0.0.1:{self.ports[node]}"
        self._write(node, {"process.roles": "broker", "node.id": str(node), "listeners": at,
                           "default.replication.factor": "3", **self.of_quorum})  # fmt: skip

    def controller(self, node: int, *, migrates: bool) -> None:
        enabled = {ENABLE: "true", "zookeeper.connect": self.zookeeper} if migrates else {}
        at = f"CONTROLLER://127.0.0.1:{self.ports[node]}"
        self._write(node, {"process.roles": "controller", "node.id": str(node), "listeners": at,
                           **self.of_quorum, **enabled})  # fmt: skip

    def start(self, node: int) -> None:
        with (self.home / f"{node}.log").open("ab") as log:
            command = [sys.executable, "-m", "barnabas", "node", "start", str(self.file(node))]
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, node: int) -> None:
        process = self.processes.pop(node)
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        process.wait(30)

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(30)

    # -- steps -------------------------------------------------------------------------------------

    def restart(self, node: int) -> None:
        """A broker, in the mode of its file; until it is in every ISR."""
        if node in self.processes:
            self.stop(node)
        self.start(node)
        wait_until(self.whole, f"broker {node} is not in every ISR")

    def whole(self) -> bool:
        try:
            found = (
                AdminClient(self.client()).list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
            )
        except KafkaException:  # no broker answers yet
            return False
        return len(found) == PARTITIONS and all(
            len(one.isrs) == len(BROKERS) and one.leader in BROKERS for one in found.values()
        )

    def alive(self) -> int:
        """How many brokers clients learn of."""
        try:
            return len(AdminClient(self.client()).list_topics(timeout=5).brokers)
        except KafkaException:  # no broker answers yet
            return 0

    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    def begin_controllers(self) -> None:
        for node in CONTROLLERS:
            self.controller(node, migrates=True)
        files = [str(self.file(node)) for node in CONTROLLERS]
        ok("migrate", "start", *files, "--zookeeper", self.zookeeper)
        for node in CONTROLLERS:
            self.start(node)

    def status(self) -> dict[str, Any]:
        done = barnabas("migrate", "status", "--zookeeper", self.zookeeper, "--bootstrap",
                        self.bootstrap, "--json")  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    def wait_for_dual_write(self) -> None:
        wait_until(lambda: self.status().get("phase") == "dual_write", "both are not written")

    def leader(self) -> int:
        found = json.loads(ok("quorum", "describe", "--bootstrap", self.bootstrap, "--json"))
        return int(found["leader_id"])

    def kill_leader(self) -> None:
        """Of the quorum; it is started again when another one writes both."""
        node = self.leader()
        self.kill(node)
        wait_until(lambda: self.status().get("writer") not in (-1, node), "no other one writes")
        self.wait_for_dual_write()
        self.start(node)


class Load:
    """Numbered records, acks=all and idempotent, from a thread until the block ends."""

    def __init__(self, machines: Machines) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._machines = machines
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the producer does not end"

    def wait_for_more(self, count: int = 100) -> None:
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, "no record is acknowledged any more")

    def _run(self) -> None:
        producer = Producer({**self._machines.client(), "enable.idempotence": True, "linger.ms": 1,
                             "socket.timeout.ms": 5000, "request.timeout.ms": 5000})  # fmt: skip
        number = 0
        while not self._ended.is_set():
            producer.produce(TOPIC, str(number), partition=number % PARTITIONS,
                             on_delivery=self._on_delivery)  # fmt: skip
            number += 1
            producer.poll(0.005)
        left = producer.flush(40)
        if left:
            self.failed.append(f"{left} records have no answer")

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))
        else:
            self.failed.append(str(error))


def ok(*arguments: str) -> str:
    done = barnabas(*arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def create(machines: Machines, topic: str) -> None:
    wanted = NewTopic(topic, PARTITIONS, 3, config={"retention.ms": "123456789"})
    admin = AdminClient(machines.client())
    admin.create_topics([wanted])[topic].result(30)


def read(machines: Machines, count: int) -> list[int]:
    consumer = Consumer({**machines.client(), "group.id": "no group", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [int(m.value()) for m in consumer.consume(2000, 0.5) if not m.error()]
    found += [int(m.value()) for m in consumer.consume(2000, 1.0) if not m.error()]
    consumer.close()
    return found


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    try:
        servers = ZooKeeperServers(tmp_path / "ensemble")
    except ZooKeeperMissing as missing:
        pytest.skip(str(missing))
    with servers:
        found = Machines(tmp_path, f"{servers.connect}/kafka")
        try:
            yield found
        finally:
            found.end()


def same(machines: Machines) -> None:
    """Znodes and log say the same, once what is under way is written."""
    at = ("--zookeeper", machines.zookeeper, "--bootstrap", machines.bootstrap)
    wait_until(lambda: barnabas("migrate", "compare", *at).returncode == 0, "they differ")


def there(machines: Machines) -> None:
    """From ZooKeeper mode into dual write."""
    machines.begin_controllers()
    for node in BROKERS:
        machines.broker(node, migrates=True)
        machines.restart(node)
    machines.wait_for_dual_write()
    same(machines)


def back(machines: Machines) -> None:
    """From dual write into ZooKeeper mode, as if there had been no attempt."""
    for node in BROKERS:
        machines.broker(node, migrates=True)
        machines.restart(node)
    metadata = machines.home / f"data-{machines.leader()}"
    for node in CONTROLLERS:
        machines.stop(node)
    ok(
        "migrate",
        "release",
        "--zookeeper",
        machines.zookeeper,
        "--metadata",
        str(metadata),
        "--yes",
    )
    for node in CONTROLLERS:
        (machines.home / f"data-{node}").rename(machines.home / f"old-{node}-{time.time_ns()}")
    for node in BROKERS:
        machines.broker(node, migrates=False)
        machines.restart(node)


def test_a_loaded_cluster_goes_there_back_there_again_and_to_the_end(machines: Machines) -> None:
    for node in BROKERS:
        machines.broker(node, migrates=False)
        machines.start(node)
    wait_until(lambda: machines.alive() == len(BROKERS), "brokers are not there")
    create(machines, TOPIC)
    wait_until(machines.whole, "the topic is not whole")
    with Load(machines) as load:
        there(machines)
        machines.kill_leader()
        create(machines, "in-dual-write")
        machines.broker_under_kraft(1)
        machines.restart(1)
        load.wait_for_more()
        back(machines)
        create(machines, "after-the-way-back")
        load.wait_for_more()
        there(machines)
        for node in BROKERS:
            machines.broker_under_kraft(node)
            machines.restart(node)
            machines.kill_leader()
            load.wait_for_more()
        create(machines, "under-kraft")
        same(machines)
        for node in CONTROLLERS:
            machines.stop(node)
            machines.controller(node, migrates=False)
            machines.start(node)
        wait_until(lambda: machines.status().get("state") == "POST_MIGRATION", "it is not final")
        load.wait_for_more()
    assert not load.failed
    found = read(machines, len(load.acknowledged))
    assert set(load.acknowledged) <= set(found)
    assert len(found) == len(set(found))
    names = set(AdminClient(machines.client()).list_topics(timeout=5).topics)
    assert {TOPIC, "in-dual-write", "after-the-way-back", "under-kraft"} <= names
