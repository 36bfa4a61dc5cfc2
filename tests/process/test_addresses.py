"""A cluster whose nodes have IPv6 addresses, and one that listens on every address and advertises a name."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.cli.local.free_ports import FreePorts
from barnabas.host.client import connect
from barnabas.wire.errors import KafkaError
from tests.process.launch import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

NODES = (1, 2, 3)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


class Nodes:
    """Three nodes that listen at `bound` and are reached at `reached`."""

    def __init__(self, folder: Path, bound: str, reached: str) -> None:
        ports = FreePorts().take(6)
        self.clients = dict(zip(NODES, ports[:3], strict=True))
        self.reached = reached
        voters = ",".join(
            f"{node}@{reached}:{port}" for node, port in zip(NODES, ports[3:], strict=True)
        )
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for node, controller in zip(NODES, ports[3:], strict=True):
            variables = {
                "KAFKA_NODE_ID": str(node),
                "KAFKA_PROCESS_ROLES": "broker,controller",
                "KAFKA_LISTENERS": f"A://{bound}:{self.clients[node]},C://{bound}:{controller}",
                "KAFKA_ADVERTISED_LISTENERS": f"A://{reached}:{self.clients[node]}",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "C",
                "KAFKA_INTER_BROKER_LISTENER_NAME": "A",
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:PLAINTEXT,C:PLAINTEXT",
                "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
                "KAFKA_LOG_DIRS": str(folder / str(node)),
                "KAFKA_METRICS_LISTENERS": "",
            }
            with (folder / f"{node}.log").open("wb") as log:
                self.processes[node] = subprocess.Popen(
                    [sys.executable, "-m", "barnabas", "node", "start", "--from-environment"],
                    env={**os.environ, **variables},
                    stderr=log,
                )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.reached}:{self.clients[node]}" for node in self.processes)

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        process.wait()

    def end(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for node in list(self.processes):
            try:
                self.processes[node].wait(10)
            except subprocess.TimeoutExpired:
                self.kill(node)


@pytest.fixture(params=[("[::1]", "[::1]"), ("0.0.0.0", "localhost")])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    bound, reached = request.param
    if ":" in reached and not has_ipv6():
        pytest.skip("this machine has no IPv6 on its loopback")
    started = Nodes(tmp_path, bound, reached)
    yield started
    started.end()


def test_records_survive_the_leader_whatever_the_addresses_are(nodes: Nodes) -> None:
    def is_created() -> bool:
        try:
            with connect(nodes.bootstrap) as client:
                client.create_topic("t", partitions=1, replication_factor=3)
        except (OSError, KafkaError):
            return False
        return True

    wait_until(is_created, "the topic is created")
    produce(nodes, b"before")
    with connect(nodes.bootstrap) as client:
        leader = client.topic("t").partitions[0].leader
        assert {broker.host for broker in client.describe_cluster().brokers} == {
            nodes.reached.strip("[]")
        }
    nodes.kill(leader)
    produce(nodes, b"after")
    reader = Consumer(
        {"bootstrap.servers": nodes.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    reader.subscribe(["t"])
    values: list[bytes | None] = []
    wait_until(lambda: len(values) == 2 or bool(read(reader, values)), "both records")
    reader.close()
    assert values == [b"before", b"after"]


def produce(nodes: Nodes, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all"})
    failures: list[object] = []
    producer.produce("t", value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None]


def read(reader: Consumer, values: list[bytes | None]) -> bool:
    """Take what comes; False, so that it is asked again."""
    message = reader.poll(0.2)
    if message is not None and message.error() is None:
        values.append(message.value())
    return False
