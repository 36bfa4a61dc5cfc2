"""Our brokers under an Apache Kafka controller: they register, follow its metadata, serve, and leave."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from tests.peers import CLASS_PATH

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
]
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PATIENCE_S = 60.0
RECORDS = 2000
COMMON = """controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
"""


class Mixed:
    """A Java controller and two of our brokers, each with two log directories: of a new replica there the
    controller says that it is in none yet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.controller_port, *self.ports = FreePorts().take(3)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, keys: str = "") -> None:
        """`keys` are further lines of every file."""
        quorum = f"controller.quorum.voters=1@127.0.0.1:{self.controller_port}\n"
        controller = self.directory / "controller.properties"
        controller.write_text(
            "process.roles=controller\nnode.id=1\n" + quorum + COMMON
            + f"listeners=CONTROLLER://127.0.0.1:{self.controller_port}\n"
            + f"log.dirs={self.directory / 'controller'}\n" + keys
        )  # fmt: skip
        java = ["java", "-Xmx300m", "-cp", CLASS_PATH]
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(controller)],
            check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        self._launch("controller", [*java, "kafka.Kafka", str(controller)])
        for node_id, port in zip((2, 3), self.ports, strict=True):
            file = self.directory / f"broker-{node_id}.properties"
            file.write_text(
                f"process.roles=broker\nnode.id={node_id}\n" + quorum + COMMON
                + f"listeners=PLAINTEXT://127.0.0.1:{port}\n"
                + f"log.dirs={self.directory / f'{node_id}-a'},{self.directory / f'{node_id}-b'}\n" + keys
            )  # fmt: skip
            ours = [sys.executable, "-m", "barnabas"]
            subprocess.run(
                [*ours, "storage", "format", "--cluster-id", CLUSTER_ID, str(file)],
                check=True, capture_output=True, timeout=PATIENCE_S,
            )  # fmt: skip
            self._launch(f"broker-{node_id}", [*ours, "node", "start", str(file)])

    def restart(self, node_id: int) -> None:
        """A broker; killed, not stopped."""
        process = self.processes.pop(node_id - 1)
        process.kill()
        process.wait()
        file = self.directory / f"broker-{node_id}.properties"
        self._launch(
            f"broker-{node_id}", [sys.executable, "-m", "barnabas", "node", "start", str(file)]
        )
        self.processes.insert(node_id - 1, self.processes.pop())

    def _launch(self, name: str, command: list[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path)
    try:
        mixed.start()
        yield mixed
    finally:
        mixed.stop()


def test_brokers_serve_and_leave_in_order(mixed: Mixed) -> None:
    first, second = (f"127.0.0.1:{port}" for port in mixed.ports)
    client = admin.AdminClient({"bootstrap.servers": f"{first},{second}", "log_level": 0})
    wait_for_brokers(client, 2)
    topic = admin.NewTopic("mix", num_partitions=4, replication_factor=2)
    client.create_topics([topic])["mix"].result()
    producer = confluent_kafka.Producer({"bootstrap.servers": first, "acks": "all", "log_level": 0})
    failed: list[Any] = []
    for i in range(RECORDS):
        producer.produce(
            "mix",
            b"%d" % i,
            partition=i % 4,
            on_delivery=lambda error, message: failed.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0 and not failed
    found = client.list_topics("mix", timeout=10).topics["mix"].partitions
    assert {p.leader for p in found.values()} == {2, 3}
    assert all(sorted(p.isrs) == [2, 3] for p in found.values())
    leaving = mixed.processes[1]
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(PATIENCE_S) == 0
    other = admin.AdminClient({"bootstrap.servers": second, "log_level": 0})
    left = other.list_topics("mix", timeout=10).topics["mix"].partitions
    assert all(p.leader == 3 and p.isrs == [3] for p in left.values())


def wait_for_brokers(client: Any, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if len(client.list_topics(timeout=2).brokers) == count:
                return
        except confluent_kafka.KafkaException:
            continue
        time.sleep(0.1)
    raise AssertionError(f"no {count} brokers within {PATIENCE_S} s")
