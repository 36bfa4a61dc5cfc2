"""A cluster that migrates from ZooKeeper to KRaft, as processes, and a producer that loads it meanwhile.

Three brokers and three controllers, each with a properties file that changes between its starts. Brokers may
be Apache Kafka 3.9.1's, and may continue as ours on a copy of their directory.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import ProducerSettings
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.config.properties import format_properties
from barnabas.host.client import connect
from barnabas.wire.errors import KafkaError as KafkaRefusal
from barnabas.zookeeper.operations import NodeData
from tests.peers import CLASS_PATH_39
from tests.process import launch
from tests.process.ambushed_node import Ambush
from tests.process.launch import barnabas, wait_until

BROKERS, CONTROLLERS = (1, 2, 3), (101, 102, 103)
PARTITIONS, TOPIC = 3, "numbers"
ENABLE = "zookeeper.metadata.migration.enable"
ROOT = Path(__file__).resolve().parents[2]
JAVA_39 = ("java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH_39)

LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class Clustered(Protocol):
    """Brokers that a client can reach."""

    def client(self) -> dict[str, Any]:
        """What a client of librdkafka is configured with."""


STEPS = (
    "before survey",
    "before claim",
    "after Claimed",
    "after CopyAppended",
    "before catch up",
    "after CaughtUp",
    "before command",
)
"""Of a takeover; a controller that follows comes to each that is left."""


def deaths(former: int, at: str) -> list[tuple[str, int]]:
    """At each step of a takeover its controller dies, and at one `former`, the broker that was controller."""
    points = [(step, 0) for step in STEPS]
    points.insert(STEPS.index(at) + 1, (at, former))
    return points


class NodeFiles:
    """The properties files of brokers and controllers, which change between their starts."""

    def __init__(self, home: Path, zookeeper: str) -> None:
        self.home, self.zookeeper = home, zookeeper
        ports = FreePorts().take(len(BROKERS) + len(CONTROLLERS))
        self.ports = dict(zip((*BROKERS, *CONTROLLERS), ports, strict=True))
        self.voters = ",".join(f"{one}@127.0.0.1:{self.ports[one]}" for one in CONTROLLERS)
        self.bootstrap = ",".join(f"127.0.0.1:{self.ports[one]}" for one in BROKERS)
        self.directories = {one: home / f"data-{one}" for one in self.ports}

    def file(self, node: int) -> Path:
        return self.home / f"{node}.properties"

    def _write(self, node: int, values: dict[str, str]) -> None:
        whole = {"log.dirs": str(self.directories[node]), **values}
        self.file(node).write_text(format_properties(whole, ""))

    @property
    def of_quorum(self) -> dict[str, str]:
        return {
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    @property
    def of_every_broker(self) -> dict[str, str]:
        return {"default.replication.factor": "3", "offsets.topic.replication.factor": "3"}

    def listens(self, node: int) -> dict[str, str]:
        """A broker's listener for clients and brokers."""
        return {"listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]}"}

    def broker(self, node: int, *, migrates: bool) -> None:
        """In ZooKeeper mode."""
        enabled = {**self.of_quorum, ENABLE: "true"} if migrates else {}
        self._write(node, {"broker.id": str(node), "zookeeper.connect": self.zookeeper,
                           "zookeeper.session.timeout.ms": "6000", **self.of_every_broker,
                           **self.listens(node), **enabled})  # fmt: skip

    def broker_under_kraft(self, node: int) -> None:
        self._write(node, {"process.roles": "broker", "node.id": str(node), **self.of_every_broker,
                           **self.listens(node), **self.of_quorum})  # fmt: skip

    def controller(self, node: int, *, migrates: bool) -> None:
        enabled = {ENABLE: "true", "zookeeper.connect": self.zookeeper} if migrates else {}
        at = f"CONTROLLER://127.0.0.1:{self.ports[node]}"
        self._write(node, {"process.roles": "controller", "node.id": str(node), "listeners": at,
                           **self.of_quorum, **enabled})  # fmt: skip


class Machines(NodeFiles):
    """Brokers and controllers as processes."""

    def __init__(self, home: Path, zookeeper: str, *, theirs: Iterable[int] = ()) -> None:
        """`theirs`: brokers that are Apache Kafka 3.9.1's."""
        super().__init__(home, zookeeper)
        self.theirs = set(theirs)
        self.level = "3.9-IV0" if self.theirs else ""
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ambush = Ambush(home / "ambush")
        self.to_die = 0
        """How many of the ambush have not died yet."""
        self.options: tuple[str, ...] = ()
        """Of every command of ours, as a client of the controllers."""

    def start(self, node: int) -> None:
        command = [sys.executable, "-m", "barnabas", "node", "start"]
        if node in self.theirs:
            logs = self.home / "log4j.properties"
            logs.write_text(LOG4J)
            command = [*JAVA_39, f"-Dlog4j.configuration=file:{logs}", "kafka.Kafka"]
        elif node in CONTROLLERS:
            command = [sys.executable, "-m", "tests.process.ambushed_node", str(self.ambush.file)]
        with (self.home / f"{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                [*command, str(self.file(node))], stdout=log, stderr=log, cwd=ROOT
            )

    def stop(self, node: int) -> None:
        process = self.processes.pop(node)
        process.send_signal(signal.SIGTERM)
        process.wait(launch.PATIENCE_S)

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        process.wait(30)

    def run(self, *arguments: str) -> str:
        """A command of ours, which has to succeed; what it says."""
        done = barnabas(*self.options, *arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(30)

    # -- steps -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A cluster in ZooKeeper mode with the topic of the load."""
        for node in BROKERS:
            self.broker(node, migrates=False)
            self.start(node)
        wait_until(lambda: self.alive() == len(BROKERS), "brokers are not there")
        create(self, TOPIC)
        wait_until(self.whole, "the topic is not whole")

    def restart(self, node: int) -> None:
        """A broker, in the mode of its file; until it is in every ISR."""
        if node in self.processes:
            self.stop(node)
        self.start(node)
        wait_until(self.whole, f"broker {node} is not in every ISR")

    def revive(self, node: int) -> None:
        """A broker that was killed."""
        wait_until(lambda: may_start(self, node), f"the session of {node} lives")
        self.restart(node)

    def copy_becomes_ours(self, node: int) -> None:
        """A broker of Apache Kafka's ends; ours continues under KRaft on a copy of its directory."""
        self.stop(node)
        copy = self.home / f"copy-{node}"
        shutil.copytree(self.directories[node], copy)
        self.directories[node] = copy
        self.theirs.remove(node)
        self.broker_under_kraft(node)
        self.restart(node)

    def begin_controllers(self) -> None:
        for node in CONTROLLERS:
            self.controller(node, migrates=True)
        files = [str(self.file(node)) for node in CONTROLLERS]
        level = ("--metadata-version", self.level) if self.level else ()
        self.run("migrate", "start", *files, "--zookeeper", self.zookeeper, *level)
        for node in CONTROLLERS:
            self.start(node)

    def enable(self, node: int) -> None:
        """A broker in ZooKeeper mode that registers with the quorum, too."""
        self.broker(node, migrates=True)
        self.restart(node)

    def change_over(self, node: int) -> None:
        """A broker, of whichever side, that continues under KRaft on the directory that it has."""
        self.broker_under_kraft(node)
        self.restart(node)

    def kill_leader(self) -> None:
        """Of the quorum; it is started again when another one writes both."""
        node = self.leader()
        self.kill(node)
        wait_until(lambda: self.status().get("writer") not in (-1, node), "no other one writes")
        self.wait_for_dual_write()
        self.start(node)

    def spring(self, *points: tuple[str, int]) -> None:
        """Nodes die at these points of the migration, one after the other, and are started again: each a
        point of `ambushed_node` and a broker, or 0 for the controller that comes to it."""
        named = [(point, self.processes[node].pid if node else 0) for point, node in points]
        self.to_die = len(named)
        self.ambush.lay(named)

    def survive(self) -> None:
        """Start again who died, until all who were to die have died and the topic is whole."""
        while (left := self.to_die) > 0:
            wait_until(lambda: self._start_the_dead() < left, "the next point is not reached")
        wait_until(lambda: self._start_the_dead() == 0 and self.whole(), "not all are back")

    def _start_the_dead(self) -> int:
        """How many of the ambush have not died yet, or have died and have not started again."""
        for node, process in list(self.processes.items()):
            if process.poll() is None or not may_start(self, node):
                continue
            assert process.returncode == -signal.SIGKILL, f"{node} has ended"
            self.to_die -= 1
            self.start(node)
        return self.to_die

    def end_migration(self) -> None:
        """Controllers start again without the key, and there is no way back."""
        for node in CONTROLLERS:
            self.stop(node)
            self.controller(node, migrates=False)
            self.start(node)
        wait_until(lambda: self.status().get("state") == "POST_MIGRATION", "it is not final")

    # -- what is there -----------------------------------------------------------------------------

    def whole(self) -> bool:
        try:
            metadata = AdminClient(self.client()).list_topics(TOPIC, timeout=5)
        except KafkaException:  # no broker answers yet
            return False
        found = metadata.topics[TOPIC].partitions
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

    def status(self) -> dict[str, Any]:
        done = barnabas(*self.options, "migrate", "status", *self.both, "--json")
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    @property
    def at_quorum(self) -> tuple[str, str]:
        """Whom a command asks for the metadata log: a broker of Apache Kafka's in ZooKeeper mode has none."""
        if not (self.theirs or self.options):
            return ("--bootstrap", self.bootstrap)
        listeners = (voter.partition("@")[2] for voter in self.voters.split(","))
        return ("--bootstrap-controller", ",".join(listeners))

    @property
    def both(self) -> tuple[str, ...]:
        """Options of a command that reads znodes and the metadata log."""
        return ("--zookeeper", self.zookeeper, *self.at_quorum)

    def wait_for_dual_write(self) -> None:
        wait_until(lambda: self.status().get("phase") == "dual_write", "both are not written")

    def leader(self) -> int:
        told = self.run("quorum", "describe", *self.at_quorum, "--json")
        found = json.loads(told)
        return int(found["leader_id"])

    def znodes(self) -> Mapping[str, NodeData]:
        return read_znodes(self.zookeeper)

    def controller_of_zookeeper(self) -> int:
        """The broker that is controller, or -1."""
        found = self.znodes().get("/controller")
        return -1 if found is None else int(json.loads(found.data)["brokerid"])


class Load:
    """Numbered records, acks=all and idempotent, from a thread until the block ends."""

    def __init__(self, cluster: Clustered, client: Mapping[str, Any] | None = None) -> None:
        """`client`: what the producer says of itself, where that is not what the cluster's clients say."""
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._client = client or cluster.client()
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
        producer = Producer({**self._client, "enable.idempotence": True, "linger.ms": 1,
                             "socket.timeout.ms": 5000, "request.timeout.ms": 5000,
                             # A broker of Kafka 3.9 that starts knows no topic before the controller's first
                             # request, and the client believes it.
                             "topic.metadata.propagation.max.ms": 120000})  # fmt: skip
        number = 0
        while not self._ended.is_set():
            try:
                producer.produce(TOPIC, str(number), partition=number % PARTITIONS,
                                 on_delivery=self._on_delivery)  # fmt: skip
                number += 1
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                    raise
                producer.poll(0.1)  # until its metadata have been refreshed
            producer.poll(0.005)
        left = producer.flush(40)
        if left:
            silent = sorted(set(range(number)) - set(self.acknowledged))
            partitions = sorted({each % PARTITIONS for each in silent})
            self.failed.append(
                f"{left} records have no answer, from {silent[:3]} on, of partitions {partitions}"
            )

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))
        elif error.code() != KafkaError._UNKNOWN_TOPIC:  # which was not sent
            self.failed.append(str(error))


class LoadOfOurs(Load):
    """The same by Barnabas's own client. librdkafka 2.16 that learns of no broker, as from one of Apache
    Kafka 3.9 that starts, connects to none again for minutes; ours asks its bootstrap servers."""

    IN_FLIGHT_MAX = 1000

    def _run(self) -> None:
        settings = ProducerSettings(
            linger_ms=1.0, request_timeout_ms=5000.0, delivery_timeout_ms=180_000.0
        )
        number, answered = 0, 0

        def on_answer(asked: int, outcome: TaskOutcome[Delivery]) -> None:
            nonlocal answered
            answered += 1
            try:
                outcome.result()
            except (KafkaRefusal, ChannelError) as error:
                self.failed.append(str(error))
            else:
                self.acknowledged.append(asked)

        with connect(self._client["bootstrap.servers"]) as client:
            producer = client.producer(settings).inner
            while not self._ended.is_set():
                if number - answered < self.IN_FLIGHT_MAX:
                    record = ProducerRecord(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                    producer.send(record).when_done(partial(on_answer, number))
                    number += 1
                client.run_for(5.0)
            client.call(producer.flush())
        if answered != number:
            self.failed.append(f"{number - answered} records have no answer")


def may_start(machines: Machines, node: int) -> bool:
    """Apache Kafka's broker in ZooKeeper mode ends where it finds its former registration."""
    if node not in machines.theirs or "zookeeper.connect" not in machines.file(node).read_text():
        return True
    return not is_registered(machines, node)


def create(machines: Machines, topic: str) -> None:
    """Asked again while no controller answers."""
    config = {"retention.ms": "123456789", "min.insync.replicas": "2"}
    admin = AdminClient(machines.client())

    def is_there() -> bool:
        wanted = NewTopic(topic, PARTITIONS, 3, config=config)
        try:
            admin.create_topics([wanted], request_timeout=10)[topic].result()
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    wait_until(is_there, f"{topic} is not created")


def check_read(cluster: Clustered, load: Load) -> None:
    """Everything that was acknowledged is there, and nothing twice."""
    assert not load.failed, Counter(load.failed)
    found = read(cluster, len(load.acknowledged))
    assert set(load.acknowledged) <= set(found)
    assert len(found) == len(set(found))


def read(cluster: Clustered, count: int) -> list[int]:
    consumer = Consumer({**cluster.client(), "group.id": "no group", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [int(m.value()) for m in consumer.consume(2000, 0.5) if not m.error()]
    found += [int(m.value()) for m in consumer.consume(2000, 1.0) if not m.error()]
    consumer.close()
    return found


def topics(machines: Machines) -> set[str]:
    return set(AdminClient(machines.client()).list_topics(timeout=5).topics)


def same(machines: Machines) -> None:
    """Znodes and log say the same, once what is under way is written."""
    command = (*machines.options, "migrate", "compare", *machines.both)
    deadline = time.monotonic() + launch.PATIENCE_S
    while (done := barnabas(*command)).returncode != 0:
        assert time.monotonic() < deadline, f"they differ: {done.stdout}{done.stderr}"


def there(machines: Machines) -> None:
    """From ZooKeeper mode into dual write."""
    machines.begin_controllers()
    for node in BROKERS:
        machines.enable(node)
    machines.wait_for_dual_write()
    same(machines)


def knows(machines: Machines, node: int, topic: str) -> bool:
    """Whether this broker has learned of a topic."""
    client = {**machines.client(), "bootstrap.servers": f"127.0.0.1:{machines.ports[node]}"}
    try:
        return topic in AdminClient(client).list_topics(timeout=5).topics
    except KafkaException:
        return False


def back(machines: Machines) -> None:
    """From dual write into ZooKeeper mode, as if there had been no attempt."""
    for node in BROKERS:
        machines.enable(node)
    metadata = machines.directories[machines.leader()]
    for node in CONTROLLERS:
        machines.stop(node)
    at = ("--zookeeper", machines.zookeeper)
    machines.run("migrate", "release", *at, "--metadata", str(metadata), "--yes")
    for node in CONTROLLERS:
        machines.directories[node].rename(machines.home / f"old-{node}-{time.time_ns()}")
    # A broker of Kafka 3.9 that has not heard of the new controller ends by the quorum that is gone.
    create(machines, released := f"released-{time.time_ns()}")
    for node in BROKERS:
        wait_until(partial(knows, machines, node, released), f"broker {node} obeys no broker")
    # One of Kafka 3.9 may ask the quorum that is gone for its ISRs until it is started again.
    for node in BROKERS:
        machines.broker(node, migrates=False)
        machines.stop(node)
        machines.start(node)
        wait_until(partial(is_registered, machines, node), f"broker {node} is not registered")
    wait_until(machines.whole, "a broker is not in every ISR")


def is_registered(machines: Machines, node: int) -> bool:
    return f"/brokers/ids/{node}" in machines.znodes()


def kill_controller_of_zookeeper(machines: Machines) -> int:
    """The broker that is controller dies and comes back; which one is controller then."""
    former = machines.controller_of_zookeeper()
    machines.kill(former)
    wait_until(lambda: machines.controller_of_zookeeper() not in (-1, former), "no election")
    machines.revive(former)
    return machines.controller_of_zookeeper()


def there_past_deaths(machines: Machines, former_dies_at: str) -> None:
    """Into dual write, where a controller dies at each step, and the broker that is controller before the
    takeover and in it."""
    machines.begin_controllers()
    machines.enable(1)
    machines.enable(2)
    former = kill_controller_of_zookeeper(machines)
    if former == 3:  # which is restarted before the takeover
        former = kill_controller_of_zookeeper(machines)
    machines.spring(*deaths(former, former_dies_at))
    machines.enable(3)
    machines.survive()
    machines.wait_for_dual_write()
    same(machines)


def write_past_deaths(machines: Machines, name: str) -> None:
    """Topics, whose controller dies before and after it has written their znodes."""
    for point in ("before write", "after write"):
        machines.spring((point, 0))
        create(machines, f"{name}-{point.replace(' ', '-')}")
        machines.survive()
    same(machines)
