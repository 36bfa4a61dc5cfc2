"""The same work of a share group leaves the same dead letters on a node here and on Apache Kafka 4.4.0."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from tests.interop.java_programs import Program
from tests.interop.quorum_nodes import CLUSTER_ID, JVM
from tests.peers import CLASS_PATH, KAFKA_VERSION
from tests.process.launch import Up, barnabas

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(500),
    pytest.mark.skipif(KAFKA_VERSION == "4.3.0", reason="dead letters are of Apache Kafka 4.4"),
]  # fmt: skip
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "2",
    "group.share.min.delivery.count.limit": "2",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
NUMBERS = range(1, 31)
PATIENCE_S = START_S = 180.0
Letter = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]


class KafkaNode:
    """One process of Apache Kafka, alone."""

    def __init__(self, directory: Path) -> None:
        plain, quorum = FreePorts().take(2)
        self.bootstrap = f"127.0.0.1:{plain}"
        file = directory / "server.properties"
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{quorum}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{quorum}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            **SETTINGS,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        command = [*JVM, "-cp", CLASS_PATH]
        subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)],
            check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        self._log = (directory / "kafka.log").open("wb")
        self.process = subprocess.Popen(
            [*command, "kafka.Kafka", str(file)], stdout=self._log, stderr=self._log
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    words = [word for item in SETTINGS.items() for word in ("--set", "=".join(item))]
    up = Up(tmp_path_factory.mktemp("ours") / "up", "--nodes", "1", *words)
    try:
        yield up.wait_for_line("bootstrap: ", START_S).removeprefix("bootstrap: ")
    finally:
        up.end()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = KafkaNode(tmp_path_factory.mktemp("theirs"))
    try:
        wait_for("Apache Kafka", lambda: _topics(node.bootstrap) is not None)
        yield node.bootstrap
    finally:
        node.end()


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def _topics(bootstrap: str) -> dict[str, Any] | None:
    from confluent_kafka import admin

    client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        return dict(client.list_topics(timeout=5).topics)
    except confluent_kafka.KafkaException:
        return None


def run(*words: str) -> None:
    done = barnabas(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def dead_letters(bootstrap: str, topic: str, count: int) -> list[Letter]:
    """The first `count` dead letters, in the order of their offsets."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
    )
    try:
        places = wait_for(topic, lambda: (_topics(bootstrap) or {}).get(topic)).partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, place, 0) for place in places])
        found: list[Letter] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value(), tuple(message.headers() or ())))
        return found
    finally:
        consumer.close()


def work(bootstrap: str, log: Path, mode: str, *, copies: bool, named: bool) -> list[Letter]:
    """A group does its work in `mode`; the letters of every third record, or of all where it `holds`."""
    where = ("--bootstrap", bootstrap)
    name = f"{mode}-{copies}".lower()
    run("topics", "create", name, "-p", "1", "-r", "1", *where)
    letters = f"dlq.{name}"
    if named:
        enable = "errors.deadletterqueue.group.enable=true"
        run("topics", "create", letters, "-p", "2", "-r", "1", "-c", enable, *where)
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": "1000" if mode == "holds" else "15000",
        "share.delivery.count.limit": "2",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
    }
    options = [word for item in settings.items() for word in ("-s", "=".join(item))]
    run("configs", "alter", "--group", name, *options, *where)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "zstd", "log_level": 0}
    )
    for number in NUMBERS:
        key = None if number % 2 else f"key {number}"
        producer.produce(name, str(number), key, headers=[("own", b"header")])
    assert producer.flush(PATIENCE_S) == 0
    member = Program("DeadLetterWork", bootstrap, name, name, mode, "4", log=log)
    try:
        member.wait_for_all_lines()
    finally:
        member.kill()
    marked = [number for number in NUMBERS if mode == "holds" or number % 3 == 0]
    found = dead_letters(bootstrap, letters, len(marked))
    assert len(found) == len(marked)
    return found


@pytest.mark.parametrize(
    ("mode", "copies", "named"),
    [
        ("rejects", True, True),
        ("rejects", False, False),
        ("releases", True, False),
        ("holds", True, True),
    ],
)
def test_dead_letters_are_those_of_apache_kafka(
    ours: str, theirs: str, tmp_path: Path, mode: str, copies: bool, named: bool
) -> None:
    found = [
        work(bootstrap, tmp_path / "member.txt", mode, copies=copies, named=named)
        for bootstrap in (ours, theirs)
    ]
    assert sorted(found[0], key=_offset) == sorted(found[1], key=_offset)
    key, value, headers = min(found[0], key=_offset)
    number = 1 if mode == "holds" else 3
    assert value == (str(number).encode() if copies else None)
    assert key is None
    why = b"Offset rejected by client."
    if mode != "rejects":
        why = b"Offset delivery count exceeded the threshold."
    name = f"{mode}-{copies}".lower().encode()
    assert headers == (
        ("__dlq.errors.topic", name),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", str(number - 1).encode()),
        ("__dlq.errors.group", name),
        ("__dlq.errors.delivery.count", b"1" if mode == "rejects" else b"2"),
        ("__dlq.errors.message", why),
    )


def _offset(letter: Letter) -> int:
    return int(dict(letter[2])["__dlq.errors.offset"])
