"""Quorums without a broker, by commands: formatted with their first voters, or static and made dynamic."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.free_ports import FreePorts
from tests.process.launch import barnabas

pytestmark = [pytest.mark.process, pytest.mark.slow]
PATIENCE_S = 30.0
CLUSTER_ID = "bm8tYnJva2VyLWhlcmUtYQ"
NODES = (1, 2, 3)
DIRECTORIES = {
    1: "b25lb25lb25lb25lb25lMQ",
    2: "dHdvdHdvdHdvdHdvdHdvMg",
    3: "dGhyZWV0aHJlZXRocmVlMw",
}


class Controllers:
    """Three nodes that are controllers and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.at = {
            n: f"127.0.0.1:{port}" for n, port in zip(NODES, FreePorts().take(3), strict=True)
        }
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def configure(self, *, static: bool) -> None:
        voters = ",".join(f"{node}@{at}" for node, at in self.at.items())
        servers = ",".join(self.at.values())
        for node, at in self.at.items():
            which = f"voters={voters}" if static else f"bootstrap.servers={servers}"
            self.file(node).write_text(
                f"process.roles=controller\nnode.id={node}\ncontroller.quorum.{which}\n"
                f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://{at}\n"
                f"log.dirs={self.directory / str(node)}\n"
            )

    def file(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def start(self, *how: str) -> None:
        for node in NODES:
            words = ("storage", "format", "--cluster-id", CLUSTER_ID, *how, str(self.file(node)))
            done = barnabas(*words)
            assert done.returncode == 0, done.stderr
            command = [sys.executable, "-m", "barnabas", "node", "start", str(self.file(node))]
            with open(self.directory / f"{node}.log", "ab") as log:
                self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        process.wait(PATIENCE_S)

    def quorum(self, *words: str) -> subprocess.CompletedProcess[str]:
        servers = ",".join(self.at[node] for node in self.processes)
        return barnabas("quorum", *words, "--bootstrap-controller", servers)

    def described(self) -> dict[str, Any]:
        done = self.quorum("describe", "--json")
        told: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return told

    def wait_for(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while not ((told := self.described()) and done(told)):
            assert time.monotonic() < deadline, told
        return told


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    controllers = Controllers(tmp_path)
    yield controllers
    for node in list(controllers.processes):
        controllers.kill(node)


def directories(told: dict[str, Any]) -> dict[int, str | None]:
    return {voter["node_id"]: voter["directory_id"] for voter in told["voters"]}


def test_the_first_voters_are_those_that_were_formatted_so(controllers: Controllers) -> None:
    controllers.configure(static=False)
    first = ",".join(f"{n}@{at}:{DIRECTORIES[n]}" for n, at in controllers.at.items())
    controllers.start("--initial-controllers", first)
    told = controllers.wait_for(lambda told: told["leader_id"] > 0)
    assert directories(told) == DIRECTORIES
    controllers.kill(told["leader_id"])
    after = controllers.wait_for(lambda now: now["leader_epoch"] > told["leader_epoch"])
    assert directories(after) == DIRECTORIES
    # One of three is down: without another one nothing could be committed any more.
    other = next(node for node in controllers.processes if node != after["leader_id"])
    refused = controllers.quorum("remove-controller", str(other))
    assert refused.returncode == 1 and "do not follow" in refused.stderr
    assert controllers.quorum("remove-controller", str(told["leader_id"])).returncode == 0
    assert sorted(directories(controllers.described())) == sorted(controllers.processes)


def test_a_static_quorum_is_made_dynamic(controllers: Controllers) -> None:
    controllers.configure(static=True)
    controllers.start()
    told = controllers.wait_for(lambda told: told["max_follower_lag"] == 0)
    assert set(directories(told).values()) == {None}
    controllers.wait_for(lambda _: controllers.quorum("make-dynamic", "--dry-run").returncode == 0)
    assert set(directories(controllers.described()).values()) == {None}
    done = controllers.quorum("make-dynamic")
    assert done.returncode == 0, done.stderr
    assert "controller.quorum.bootstrap.servers=" in done.stdout
    told = controllers.wait_for(lambda told: None not in directories(told).values())
    assert "already" in controllers.quorum("make-dynamic").stdout
    follower = next(node for node in NODES if node != told["leader_id"])
    assert controllers.quorum("remove-controller", str(follower)).returncode == 0
    assert sorted(directories(controllers.described())) == sorted({*NODES} - {follower})
