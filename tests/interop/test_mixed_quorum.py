"""Controllers of Apache Kafka and of ours in one quorum: each votes, follows, leads and installs snapshots.

The nodes are controllers only; their NoOp records keep the log growing, and small limits make snapshots and
deleted log after a few seconds.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.client.channels import Channels
from barnabas.host.journal import Journal
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.describe_quorum_response import DescribeQuorumResponse
from tests.peers import LIBS

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
PATIENCE_S = 90.0
CLUSTER_ID = "bWl4ZWQtcXVvcnVtLXRlcw"


def free_ports(count: int) -> list[int]:
    """Below the range that outgoing connections take."""
    found: list[int] = []
    for port in range(23_000, 31_000):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


class Controllers:
    """Three controllers; `java` says which are Apache Kafka's."""

    def __init__(self, directory: Path, java: set[int]) -> None:
        self.directory = directory
        self.java = java
        ports = free_ports(3)
        self.endpoints = {n: Endpoint("127.0.0.1", ports[n - 1]) for n in (1, 2, 3)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.started_ms: dict[int, float] = {}
        for node, endpoint in self.endpoints.items():
            voters = ",".join(f"{n}@{at}" for n, at in self.endpoints.items())
            self.file(node).write_text(
                "process.roles=controller\n"
                f"node.id={node}\n"
                f"controller.quorum.voters={voters}\n"
                "controller.listener.names=CONTROLLER\n"
                f"listeners=CONTROLLER://{endpoint}\n"
                f"log.dirs={self.data(node)}\n"
                "metadata.log.max.record.bytes.between.snapshots=1000\n"
                "metadata.max.retention.bytes=2000\n"
            )
            self.format(node)

    def file(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def data(self, node: int) -> Path:
        return self.directory / str(node)

    def log_directory(self, node: int) -> Path:
        return self.data(node) / f"{METADATA_TOPIC}-0"

    def format(self, node: int) -> None:
        if node in self.java:
            command = ["java", "-cp", f"{LIBS}/*", "kafka.tools.StorageTool", "format"]
            command += ["-t", CLUSTER_ID, "-c", str(self.file(node))]
        else:
            command = [sys.executable, "-m", "barnabas", "storage", "format"]
            command += ["--cluster-id", CLUSTER_ID, str(self.file(node))]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def start(self, node: int) -> None:
        if node in self.java:
            command = ["java", "-Xmx300m", "-cp", f"{LIBS}/*", "kafka.Kafka", str(self.file(node))]
        else:
            command = [sys.executable, "-m", "barnabas", "node", "start", str(self.file(node))]
        self.started_ms[node] = time.time() * 1000
        with open(self.directory / f"{node}.log", "ab") as log:
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, node: int, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(node)
        process.send_signal(how)
        process.wait(PATIENCE_S)

    def empty(self, node: int) -> None:
        """A new disk for a stopped node."""
        shutil.rmtree(self.data(node))
        self.format(node)

    def describe(self, node: int) -> DescribeQuorumResponse | None:
        """What `node` says of the quorum; None where it does not lead or says nothing."""
        loop = new_loop()
        channels = Channels(HostPorts(loop, Journal(level="error")), "test")
        answers: list[object] = []

        def done(answer: object) -> None:
            answers.append(answer)
            loop.stop()

        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[topic])
        channels.send(self.endpoints[node], request, done, timeout_ms=5_000)
        loop.run_forever()
        channels.close()
        loop.close()
        answer = answers[0]
        if not isinstance(answer, DescribeQuorumResponse) or answer.error_code:
            return None
        return None if answer.topics[0].partitions[0].error_code else answer

    def leader(self) -> int | None:
        for node in self.processes:
            answer = self.describe(node)
            if answer is not None:
                return answer.topics[0].partitions[0].leader_id
        return None

    def follows(self, node: int) -> bool:
        """Whether `node` has fetched in its present life and lacks next to nothing."""
        leader = self.leader()
        answer = self.describe(leader) if leader is not None else None
        if answer is None:
            return False
        voters = {v.replica_id: v for v in answer.topics[0].partitions[0].current_voters}
        end, voter = voters[answer.topics[0].partitions[0].leader_id], voters[node]
        fetched = node == leader or voter.last_fetch_timestamp > self.started_ms[node]
        return fetched and 0 <= end.log_end_offset - voter.log_end_offset <= 3

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not condition():
            if time.monotonic() - begun > PATIENCE_S:
                logs = [f"{node}: {self._tail(node)}" for node in self.endpoints]
                raise AssertionError("\n".join([what, *logs]))
            time.sleep(0.1)

    def _tail(self, node: int) -> str:
        path = self.directory / f"{node}.log"
        return path.read_text()[-2_000:] if path.exists() else ""

    def snapshots(self, node: int) -> list[str]:
        return sorted(path.name for path in self.log_directory(node).glob("*.checkpoint"))

    def close(self) -> None:
        for node in list(self.processes):
            self.stop(node)


@pytest.fixture
def controllers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Controllers]:
    controllers = Controllers(tmp_path, request.param)
    try:
        yield controllers
    finally:
        controllers.close()


@pytest.mark.parametrize("controllers", [{3}], indirect=True)
def test_a_java_controller_beside_two_of_ours(controllers: Controllers) -> None:
    for node in (1, 2, 3):
        controllers.start(node)
    controllers.wait_for("all follow one leader", lambda: all(map(controllers.follows, (1, 2, 3))))

    # It leads where nobody else has the whole log, and ours follow it.
    if controllers.leader() == 3:
        controllers.stop(3)
        controllers.wait_for("one of ours leads", lambda: controllers.leader() in (1, 2))
        controllers.start(3)
        controllers.wait_for("the Java node is back", lambda: controllers.follows(3))
    first = controllers.leader()
    assert first in (1, 2)
    behind = 3 - first
    controllers.stop(behind)
    controllers.stop(3)
    controllers.start(3)  # its registration is a record that the stopped node does not get
    controllers.wait_for("the Java node has it", lambda: controllers.follows(3))
    time.sleep(1)
    controllers.stop(first)
    controllers.start(behind)
    controllers.wait_for("the Java node leads", lambda: controllers.leader() == 3)
    controllers.start(first)
    controllers.wait_for("ours follow it", lambda: all(map(controllers.follows, (1, 2))))

    # Its NoOp records let the log grow; ours take snapshots of it and delete what is before.
    controllers.wait_for("ours took snapshots", lambda: all(map(controllers.snapshots, (1, 2))))
    controllers.wait_for(
        "our logs begin later",
        lambda: not any((controllers.log_directory(n) / f"{0:020d}.log").exists() for n in (1, 2)),
    )

    # It steps back when it is stopped in a controlled way.
    controllers.stop(3, signal.SIGTERM)
    controllers.wait_for("one of ours leads", lambda: controllers.leader() in (1, 2))

    # With an empty disk it installs our snapshot.
    controllers.empty(3)
    controllers.start(3)
    controllers.wait_for("the Java node is back", lambda: controllers.follows(3))
    assert controllers.snapshots(3)
    assert not (controllers.log_directory(3) / f"{0:020d}.log").exists()


@pytest.mark.parametrize("controllers", [{2, 3}], indirect=True)
def test_one_of_ours_beside_two_java_controllers(controllers: Controllers) -> None:
    for node in (1, 2, 3):
        controllers.start(node)
    controllers.wait_for("all follow one leader", lambda: all(map(controllers.follows, (1, 2, 3))))
    controllers.stop(1)
    controllers.wait_for("a Java node leads", lambda: controllers.leader() in (2, 3))
    leader = controllers.leader()
    assert leader is not None
    controllers.wait_for(
        "its log begins with a snapshot",
        lambda: (
            not (controllers.log_directory(leader) / f"{0:020d}.log").exists()
            or len(controllers.snapshots(leader)) > 1
        ),
    )
    controllers.empty(1)
    controllers.start(1)
    controllers.wait_for("ours is back", lambda: controllers.follows(1))
    controllers.stop(leader, signal.SIGTERM)
    controllers.wait_for("there is a leader", lambda: controllers.leader() is not None)
    controllers.start(leader)
    controllers.wait_for("all follow", lambda: all(map(controllers.follows, (1, 2, 3))))
