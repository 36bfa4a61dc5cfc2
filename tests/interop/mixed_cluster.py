"""A cluster of brokers of Apache Kafka 3.9.1 and of ours on one ZooKeeper, for tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from tests.peers import CLASS_PATH_39

JAVA = ("java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH_39)
THEIRS, OURS = 1, (2, 3)
PATIENCE_S = 60.0
PARTITIONS = 3


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class MixedCluster:
    """Three brokers: `theirs` are Apache Kafka's, the others ours."""

    def __init__(
        self,
        directory: Path,
        connect: str,
        keys: Mapping[str, str] | None = None,
        *,
        theirs: Iterable[int] = (THEIRS,),
        keys_of_theirs: Mapping[str, str] | None = None,
        log_dirs: int = 1,
    ) -> None:
        """`keys` are further ones of every broker's file. `log_dirs`: how many each broker has."""
        self.log_dirs = log_dirs
        self.keys = keys or {}
        self.theirs = set(theirs)
        self.keys_of_theirs = keys_of_theirs or {}
        self.directory = directory
        self.connect = connect
        ports = FreePorts().take(3)
        self.ports = dict(zip((THEIRS, *OURS), ports, strict=True))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.topics: list[str] = []
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

    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    @property
    def ours(self) -> str:
        return ",".join(
            f"127.0.0.1:{self.ports[broker]}" for broker in self.ports if broker not in self.theirs
        )

    def start(self, broker: int) -> None:
        keys = {
            "broker.id": broker,
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": 6000,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "log.dirs": ",".join(map(str, self.directories(broker))),
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.num.partitions": 3,
            "min.insync.replicas": 2,
            **self.keys,
        }
        if broker in self.theirs:
            keys |= self.keys_of_theirs
        file = self.directory / f"{broker}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        command = [*JAVA, "kafka.Kafka"]
        if broker not in self.theirs:
            command = [sys.executable, "-m", "barnabas", "node", "start"]
        with (self.directory / f"{broker}.log").open("ab") as log:
            self.processes[broker] = subprocess.Popen([*command, str(file)], stdout=log, stderr=log)
        wait_until(lambda: self.is_registered(broker), f"broker {broker} is absent")

    def directories(self, broker: int) -> list[Path]:
        first = self.directory / f"data-{broker}"
        return [first, *(first.with_name(f"{first.name}-{n}") for n in range(2, self.log_dirs + 1))]

    def is_registered(self, broker: int) -> bool:
        assert self.processes[broker].poll() is None, f"broker {broker} has ended"
        return self.znodes.exists(f"/brokers/ids/{broker}") is not None

    def restart_theirs(self, broker: int = THEIRS) -> None:
        """Kafka's broker ends where it finds its former registration, which lives as long as its session."""
        path = f"/brokers/ids/{broker}"
        wait_until(lambda: self.znodes.exists(path) is None, "the session has not ended")
        self.start(broker)

    def restart(self, *brokers: int) -> None:
        """Of whichever side; until they are in every ISR of the topics that `create` made."""
        for broker in brokers:
            if broker in self.theirs:
                self.restart_theirs(broker)
            else:
                self.start(broker)
        for topic in self.topics:
            self.wait_for_all(topic)

    def exchange(self, broker: int) -> None:
        """Stop it; the other side's continues on its znodes and its directory."""
        process = self.processes.pop(broker)
        process.terminate()
        process.wait(PATIENCE_S)
        self.theirs ^= {broker}
        self.restart(broker)

    def rule(self, side: Container[int]) -> None:
        """Kill controllers until one of `side` rules, then start again who was killed."""
        killed = []
        while self.controller not in side:
            former = self.controller
            killed.append(former)
            self.kill(former)
            wait_until(lambda: self.controller not in (-1, *killed), "no controller is elected")
        self.restart(*killed)

    def kill(self, broker: int) -> None:
        process = self.processes.pop(broker)
        process.kill()
        process.wait()

    def read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.znodes.get(path)[0])
        return found

    def read_epoch(self, broker: int) -> int:
        """Zxid of its registration."""
        return int(self.znodes.exists(f"/brokers/ids/{broker}").czxid)

    @property
    def controller(self) -> int:
        try:
            return int(self.read("/controller")["brokerid"])
        except NoNodeError:
            return -1

    def members(self, topic: str) -> set[int]:
        """The brokers that are in any partition's ISR."""
        states = [
            self.read(f"/brokers/topics/{topic}/partitions/{number}/state")
            for number in range(PARTITIONS)
        ]
        return set().union(*(state["isr"] for state in states))

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
            self.topics.append(topic)
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


def run_tool(cluster: MixedCluster, main: str, *arguments: str) -> str:
    """A tool of Apache Kafka 3.9.1 that asks brokers; what it says."""
    return run_java(main, "--bootstrap-server", cluster.bootstrap, *arguments)


def run_java(main: str, *arguments: str) -> str:
    done = subprocess.run(
        [*JAVA, main, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_replicas(cluster: MixedCluster, topic: str) -> None:
    """Apache Kafka's own tool compares the replicas' batches and finds no difference."""
    command = [
        *JAVA, "org.apache.kafka.tools.ReplicaVerificationTool",
        "--broker-list", cluster.bootstrap, "--topics-include", topic,
        "--report-interval-ms", "1000",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as verification:
        try:
            assert verification.stdout is not None
            for line in verification.stdout:
                assert "differs" not in line and "doesn't match" not in line, line
                if "max lag is" in line:
                    assert "max lag is 0" in line
                    break
            else:
                raise AssertionError("it reports nothing")
        finally:
            verification.kill()


@contextmanager
def mixed_cluster(
    directory: Path, ensemble: ZooKeeperServers | None = None, **options: Any
) -> Iterator[MixedCluster]:
    """On a ZooKeeper of its own; no broker runs yet. `ensemble` is the servers, where not one of Apache's."""
    ensemble = ensemble or ZooKeeperServers(directory / "zk", libraries=CLASS_PATH_39)
    with ensemble as servers:
        root = KazooClient(hosts=servers.connect)
        root.start()
        root.ensure_path("/mixed")
        root.stop()
        root.close()
        with MixedCluster(directory, f"{servers.connect}/mixed", **options) as cluster:
            yield cluster
