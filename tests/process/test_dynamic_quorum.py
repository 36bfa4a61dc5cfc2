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

from barnabas.cli.local.free_ports import FreePorts
from barnabas.host.network import machine_name
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from bench.wire import ask
from tests.json_shapes import assert_documented
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

    def configure(self, *, static: bool, everywhere: bool = False) -> None:
        """`everywhere`: they listen on every address and advertise none."""
        voters = ",".join(f"{node}@{at}" for node, at in self.at.items())
        servers = ",".join(self.at.values())
        for node, at in self.at.items():
            which = f"voters={voters}" if static else f"bootstrap.servers={servers}"
            bound = f":{at.rpartition(':')[2]}" if everywhere else at
            self.file(node).write_text(
                f"process.roles=controller\nnode.id={node}\ncontroller.quorum.{which}\n"
                f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://{bound}\n"
                f"log.dirs={self.directory / str(node)}\n"
            )

    def file(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def start(self, *how: str, nodes: tuple[int, ...] = NODES) -> None:
        for node in nodes:
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

    def features(self) -> dict[str, int]:
        """Finalized ones, once every controller tells them alike."""
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = [ask(self.at[node], request, 4, ApiVersionsResponse) for node in self.processes]
            levels = [{f.name: f.max_version_level for f in one.finalized_features} for one in told]
            if all(one.finalized_features_epoch >= 0 for one in told):
                if levels == levels[:1] * len(levels):
                    return levels[0]
            assert time.monotonic() < deadline, levels

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


def test_a_node_that_listens_on_every_address_is_found_by_its_host_name(
    controllers: Controllers,
) -> None:
    controllers.configure(static=False, everywhere=True)
    controllers.start("--standalone", nodes=(1,))
    controllers.start("--no-initial-controllers", nodes=(2, 3))
    controllers.wait_for(lambda told: len(told["observers"]) == 2)
    for node in (2, 3):
        added = controllers.quorum("add-controller", str(controllers.file(node)))
        assert added.returncode == 0, added.stderr
    told = controllers.wait_for(lambda told: told["max_follower_lag"] == 0)
    ports = {voter["node_id"]: voter["endpoints"] for voter in told["voters"]}
    name = machine_name()
    assert ports == {n: [f"CONTROLLER://{name}:{at[10:]}"] for n, at in controllers.at.items()}
    controllers.kill(1)
    controllers.wait_for(lambda now: now["leader_id"] in (2, 3))


def test_voters_are_known_by_their_advertised_addresses(controllers: Controllers) -> None:
    controllers.configure(static=False, everywhere=True)
    for node, at in controllers.at.items():
        with controllers.file(node).open("a") as file:
            file.write(f"advertised.listeners=CONTROLLER://{at}\n")
    controllers.start("--standalone", nodes=(1,))
    controllers.start("--no-initial-controllers", nodes=(2,))
    controllers.wait_for(lambda told: len(told["observers"]) == 1)
    added = controllers.quorum("add-controller", str(controllers.file(2)))
    assert added.returncode == 0 and f"CONTROLLER://{controllers.at[2]}" in added.stdout
    told = controllers.described()
    known = {voter["node_id"]: voter["endpoints"] for voter in told["voters"]}
    assert known == {node: [f"CONTROLLER://{controllers.at[node]}"] for node in (1, 2)}


def test_a_static_quorum_is_made_dynamic(controllers: Controllers) -> None:
    controllers.configure(static=True)
    controllers.start()
    told = controllers.wait_for(lambda told: told["max_follower_lag"] == 0)
    assert set(directories(told).values()) == {None}
    controllers.wait_for(lambda _: controllers.quorum("make-dynamic", "--dry-run").returncode == 0)
    assert set(directories(controllers.described()).values()) == {None}
    before = controllers.features()
    assert before["metadata.version"] > 0 and "kraft.version" not in before
    done = controllers.quorum("make-dynamic", "--yes")
    assert done.returncode == 0, done.stderr
    assert "controller.quorum.bootstrap.servers=" in done.stdout
    told = controllers.wait_for(lambda told: None not in directories(told).values())
    assert controllers.features() == {**before, "kraft.version": 1}
    again = json.loads(controllers.quorum("make-dynamic", "--json").stdout)
    assert_documented(["quorum", "make-dynamic"], again)
    assert not again["changed"] and len(again["voters"]) == 3
    follower = next(node for node in NODES if node != told["leader_id"])
    assert controllers.quorum("remove-controller", str(follower)).returncode == 0
    assert sorted(directories(controllers.described())) == sorted({*NODES} - {follower})
