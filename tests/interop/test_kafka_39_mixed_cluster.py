"""A broker of Apache Kafka 3.9.1 and two of ours on one ZooKeeper: either side rules the other.

The controller is killed -9, records replicate across, and nothing that was acknowledged is lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from tests.peers import CLASS_PATH_39
from tests.process.launch import barnabas

JAVA = ("java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH_39)
THEIRS, OURS = 1, (2, 3)
PATIENCE_S = 60.0
PARTITIONS = 3
pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class MixedCluster:
    """Broker 1 is Apache Kafka's, 2 and 3 are ours."""

    def __init__(
        self, directory: Path, connect: str, keys: Mapping[str, str] | None = None
    ) -> None:
        """`keys` are further ones of every broker's file."""
        self.keys = keys or {}
        self.directory = directory
        self.connect = connect
        ports = FreePorts().take(3)
        self.ports = dict(zip((THEIRS, *OURS), ports, strict=True))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.znodes = KazooClient(hosts=connect)

    def __enter__(self) -> MixedCluster:
        self.znodes.start()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in list(self.processes):
            self.kill(broker)
        with suppress(Exception):
            self.znodes.stop()
            self.znodes.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def ours(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[broker]}" for broker in OURS)

    def start(self, broker: int) -> None:
        keys = {
            "broker.id": broker,
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": 6000,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "log.dirs": self.directory / f"data-{broker}",
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.num.partitions": 3,
            "min.insync.replicas": 2,
            **self.keys,
        }
        file = self.directory / f"{broker}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        command = [*JAVA, "kafka.Kafka"]
        if broker != THEIRS:
            command = [sys.executable, "-m", "barnabas", "node", "start"]
        with (self.directory / f"{broker}.log").open("ab") as log:
            self.processes[broker] = subprocess.Popen([*command, str(file)], stdout=log, stderr=log)
        wait_until(lambda: self.is_registered(broker), f"broker {broker} is absent")

    def is_registered(self, broker: int) -> bool:
        assert self.processes[broker].poll() is None, f"broker {broker} has ended"
        return self.znodes.exists(f"/brokers/ids/{broker}") is not None

    def restart_theirs(self) -> None:
        """Kafka's broker ends where it finds its former registration, which lives as long as its session."""
        path = f"/brokers/ids/{THEIRS}"
        wait_until(lambda: self.znodes.exists(path) is None, "the session has not ended")
        self.start(THEIRS)

    def kill(self, broker: int) -> None:
        process = self.processes.pop(broker)
        process.kill()
        process.wait()

    def read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.znodes.get(path)[0])
        return found

    @property
    def controller(self) -> int:
        try:
            return int(self.read("/controller")["brokerid"])
        except NoNodeError:
            return -1

    def in_sync(self, topic: str) -> set[int]:
        """The brokers that are in every partition's ISR."""
        states = [
            self.read(f"/brokers/topics/{topic}/partitions/{number}/state")
            for number in range(PARTITIONS)
        ]
        return set.intersection(*(set(state["isr"]) for state in states))

    def leaders(self, topic: str) -> set[int]:
        return {
            int(self.read(f"/brokers/topics/{topic}/partitions/{number}/state")["leader"])
            for number in range(PARTITIONS)
        }

    def wait_for_all(self, topic: str) -> None:
        everyone = {THEIRS, *OURS}
        wait_until(lambda: self.in_sync(topic) == everyone, f"{topic}'s ISRs")

    def create(self, topic: str) -> None:
        """Asked again while no controller answers."""
        until = time.monotonic() + PATIENCE_S
        while True:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            try:
                wanted = NewTopic(topic, PARTITIONS, 3)
                admin.create_topics([wanted], request_timeout=5)[topic].result()
            except KafkaException as error:
                assert time.monotonic() < until, error
                if "already exists" not in str(error):
                    continue
            self.wait_for_all(topic)
            return

    def produce(self, topic: str, values: range) -> None:
        """Acknowledged by all in-sync replicas."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "message.timeout.ms": 60000,
            }
        )
        failed: list[object] = []
        for value in values:
            producer.produce(
                topic,
                str(value),
                partition=value % PARTITIONS,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(60) == 0
        assert not failed

    def values(self, topic: str, count: int) -> list[int]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0}
        )
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
            found: list[int] = []
            until = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < until:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    found.append(int(message.value() or b"-1"))
            return sorted(found)
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("mixed")
    with ZooKeeperServers(directory / "zk", libraries=CLASS_PATH_39) as servers:
        root = KazooClient(hosts=servers.connect)
        root.start()
        root.ensure_path("/mixed")
        root.stop()
        root.close()
        with MixedCluster(directory, f"{servers.connect}/mixed") as cluster:
            yield cluster


def test_records_replicate_across_whichever_side_rules(cluster: MixedCluster) -> None:
    for broker in (THEIRS, *OURS):  # theirs comes first, and rules
        cluster.start(broker)
    assert cluster.controller == THEIRS
    cluster.create("theirs")
    assert cluster.leaders("theirs") == {THEIRS, *OURS}
    cluster.produce("theirs", range(300))
    assert cluster.values("theirs", 300) == list(range(300))

    cluster.kill(THEIRS)
    wait_until(lambda: cluster.controller in OURS, "ours does not rule")
    wait_until(lambda: cluster.leaders("theirs") <= set(OURS), "leaders")
    cluster.produce("theirs", range(300, 600))
    cluster.restart_theirs()
    cluster.wait_for_all("theirs")
    assert cluster.controller in OURS
    cluster.create("ours")
    cluster.produce("ours", range(300))
    assert cluster.values("ours", 300) == list(range(300))
    assert cluster.values("theirs", 600) == list(range(600))


def test_a_controller_of_theirs_reads_what_ours_wrote(cluster: MixedCluster) -> None:
    assert cluster.controller in OURS
    for broker in OURS:
        cluster.kill(broker)
    wait_until(lambda: cluster.controller == THEIRS, "theirs does not rule")
    for broker in OURS:
        cluster.start(broker)
    for topic in ("theirs", "ours"):
        cluster.wait_for_all(topic)
    cluster.produce("ours", range(300, 600))
    cluster.create("later")
    assert cluster.controller == THEIRS
    assert cluster.values("ours", 600) == list(range(600))
    assert cluster.values("theirs", 600) == list(range(600))


def test_a_quota_that_either_side_writes_is_known_to_both(cluster: MixedCluster) -> None:
    assert cluster.controller == THEIRS
    their_tool(cluster, "producer_byte_rate=1024")
    path = "/config/users/alice"
    wait_until(lambda: "producer_byte_rate" in cluster.read(path)["config"], "the quota's znode")
    ours_knows = partial(our_quotas, cluster, "1024")
    wait_until(ours_knows, "ours does not know what theirs wrote")

    cluster.kill(THEIRS)
    wait_until(lambda: cluster.controller in OURS, "ours does not rule")
    changed = barnabas(
        "quotas", "alter", "--user", "alice", "--set", "producer_byte_rate=2048", "-b", cluster.ours
    )
    assert changed.returncode == 0, changed.stderr
    assert cluster.read(path)["config"] == {"producer_byte_rate": "2048"}
    cluster.restart_theirs()
    cluster.wait_for_all("ours")
    their_tool(cluster, "consumer_byte_rate=512")
    wait_until(partial(our_quotas, cluster, "512"), "ours does not know what theirs wrote")
    removed = barnabas(
        "quotas", "alter", "--user", "alice", "--delete", "producer_byte_rate", "-b", cluster.ours
    )
    assert removed.returncode == 0, removed.stderr
    assert cluster.read(path)["config"] == {"consumer_byte_rate": "512"}


def their_tool(cluster: MixedCluster, quota: str) -> None:
    address = f"127.0.0.1:{cluster.ports[THEIRS]}"
    command = ["kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter"]
    entity = ["--add-config", quota, "--entity-type", "users", "--entity-name", "alice"]
    subprocess.run([*JAVA, *command, *entity], check=True, capture_output=True)


def our_quotas(cluster: MixedCluster, value: str) -> bool:
    described = barnabas("quotas", "describe", "--json", "-b", cluster.ours)
    assert described.returncode == 0, described.stderr
    return value in described.stdout
