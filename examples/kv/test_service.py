"""Three real processes of the key-value service: a change survives the death of its leader."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_S = 60.0
HERE = Path(__file__).parent


def free_ports(count: int) -> list[int]:
    """Ports that are free, as is the port 100 above each. They are below the range of outgoing connections.
    Test processes that run at the same time begin their search at different ports."""
    found: list[int] = []
    for port in range(21_000 + os.getpid() % 40 * 200, 30_000):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 100))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(enumerate(free_ports(3), 1))
        self.peers = ",".join(f"{node}=127.0.0.1:{port}" for node, port in self.ports.items())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, node: int) -> None:
        command = [sys.executable, str(HERE / "service.py"), "--id", str(node)]
        command += ["--data", str(self.directory / str(node)), "--peers", self.peers]
        with open(self.directory / f"{node}.log", "ab") as log:
            self.processes[node] = subprocess.Popen(command, stderr=log)

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        process.wait()

    def ask(self, node: int, line: str, timeout_s: float = 2.0) -> str:
        """The answers to the lines in `line`, one per line; after a connection error ``error: ...``."""
        where = ("127.0.0.1", self.ports[node] + 100)
        try:
            with socket.create_connection(where, timeout_s) as connection:
                connection.sendall(f"{line}\n".encode())
                answers = connection.makefile()
                return "\n".join(answers.readline().strip() for _ in line.split("\n"))
        except OSError as error:
            return f"error: {error}"

    def leader(self) -> int | None:
        for node in self.processes:
            answer = self.ask(node, "who")
            if answer.startswith("{") and json.loads(answer)["state"] == "Leader":
                return node
        return None

    def change(self, line: str) -> None:
        """Repeat `line` until the present leader answers ok."""
        deadline = time.monotonic() + PATIENCE_S
        answer = ""
        while time.monotonic() < deadline:
            leader = self.leader()
            answer = self.ask(leader, line) if leader is not None else "no leader"
            if answer.startswith("ok"):
                return
        raise AssertionError(f"{line}: {answer}")

    def wait_for_leader(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while (leader := self.leader()) is None:
            assert time.monotonic() < deadline, "no leader"
        return leader

    def wait_for(self, node: int, line: str, wanted: str) -> None:
        """Repeat `line` until the node's answer begins with `wanted`."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := self.ask(node, line)).startswith(wanted):
            assert time.monotonic() < deadline, f"{line} on {node}: {answer}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        for node in cluster.ports:
            cluster.start(node)
        yield cluster
    finally:
        for node in list(cluster.processes):
            cluster.kill(node)


@pytest.mark.process
def test_a_question_behind_a_change_is_answered_behind_it(cluster: Cluster) -> None:
    asked = "put city Prague\nget city\ndelete city\nget city\nnonsense\nget city"
    deadline = time.monotonic() + PATIENCE_S
    answers = [""]
    while len(answers) < 3 or not (answers[0].startswith("ok ") and answers[2].startswith("ok ")):
        # On a busy machine the leader may change between the lines.
        assert time.monotonic() < deadline, answers
        answers = cluster.ask(cluster.wait_for_leader(), asked, PATIENCE_S).split("\n")
    assert [answers[1], answers[3], answers[5]] == ["value Prague", "none", "none"]
    assert answers[4].startswith("error: ")


@pytest.mark.process
def test_a_change_survives_its_leader(cluster: Cluster) -> None:
    cluster.change("put city Prague")
    cluster.change("put river Vltava")
    leader = cluster.wait_for_leader()
    for node in cluster.ports:
        cluster.wait_for(node, "get city", "value Prague")
    follower = next(node for node in cluster.ports if node != leader)
    cluster.wait_for(follower, "put city Brno", "leader 127.0.0.1:")
    cluster.kill(leader)
    cluster.change("delete city")
    cluster.start(leader)
    cluster.wait_for(leader, "get city", "none")
    cluster.wait_for(leader, "get river", "value Vltava")
