"""A voter whose directory was lost, and a second process with a controller's id: both are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local.free_ports import HOST, FreePorts
from barnabas.host.ports import HALT_STATUS
from tests.process.launch import PATIENCE_S, barnabas, wait_until
from tests.process.test_node import CLUSTER_ID

pytestmark = [pytest.mark.process, pytest.mark.slow]


class Controllers:
    """Three processes that are controllers alone, with static voters."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = dict(enumerate(FreePorts().take(4)))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def write(self, name: str, node: int, port: int) -> Path:
        voters = ",".join(f"{n}@{HOST}:{self.ports[n]}" for n in (1, 2, 3))
        (self.home / name).mkdir(exist_ok=True)
        file = self.home / name / "server.properties"
        file.write_text(
            f"process.roles=controller\nnode.id={node}\ncontroller.quorum.voters={voters}\n"
            f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://{HOST}:{port}\n"
            f"log.dirs={self.home}/{name}/data\n"
        )
        return file

    def format(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        file = str(self.home / name / "server.properties")
        return barnabas("storage", "format", file, "--cluster-id", CLUSTER_ID, *words)

    def start(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "barnabas", "node", "start"]
        with (self.home / name / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(self.home / name / "server.properties")], stderr=log
            )
        self.processes[name] = process
        return process

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def said(self, name: str) -> str:
        return (self.home / name / "log").read_text()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """Each is formatted while those before it run, with no flag."""
    controllers = Controllers(tmp_path_factory.mktemp("three"))
    try:
        for node in (1, 2, 3):
            controllers.write(f"n{node}", node, controllers.ports[node])
            formatted = controllers.format(f"n{node}")
            assert (formatted.returncode, formatted.stderr) == (0, "")
            controllers.start(f"n{node}")
        wait_until(lambda: leader_of(controllers) != "", "a leader")
        yield controllers
    finally:
        for name in controllers.processes:
            controllers.kill(name)


def leader_of(controllers: Controllers) -> str:
    """The last one that became active."""
    active = [
        name for name in controllers.processes if "controller.active" in controllers.said(name)
    ]
    return active[-1] if active else ""


def test_a_lost_voter_is_formatted_only_where_that_is_said(three: Controllers) -> None:
    lost = next(name for name in ("n3", "n2") if name != leader_of(three))
    wait_until(lambda: registered(three, lost), "its registration")
    three.kill(lost)
    shutil.rmtree(three.home / lost / "data")
    refused = three.format(lost)
    port = three.ports[int(lost[1:])]
    assert refused.returncode == 1 and not (three.home / lost / "data").exists()
    assert f"node {lost[1:]} has run as a voter of cluster {CLUSTER_ID}" in refused.stderr
    assert f"knows it at {HOST}:{port}" in refused.stderr and "--replace-lost" in refused.stderr
    allowed = three.format(lost, "--replace-lost")
    assert allowed.returncode == 0 and "has forgotten its votes" in allowed.stderr
    assert three.start(lost).poll() is None
    wait_until(lambda: registered(three, lost), "its return")


def registered(controllers: Controllers, name: str) -> bool:
    """Whether the copy of the metadata log in the leader's directory has its registration."""
    directory = controllers.home / leader_of(controllers) / "data"
    told = barnabas("metadata", "cat", "/cluster/controllers", "--snapshot", str(directory))
    return told.returncode == 0 and f'"{name[1:]}"' in told.stdout


def test_a_second_controller_with_one_id_ends_and_says_why(three: Controllers) -> None:
    held = next(name for name in ("n3", "n2") if name != leader_of(three))
    wait_until(lambda: registered(three, held), "its registration")
    three.write("second", int(held[1:]), three.ports[0])
    assert three.format("second", "--replace-lost").returncode == 0
    second = three.start("second")
    assert second.wait(PATIENCE_S) == HALT_STATUS, three.said("second")
    assert re.search(
        rf"another process has the controller id {held[1:]}: the controller at"
        rf" CONTROLLER://{HOST}:{three.ports[int(held[1:])]}, registered since 20\d\d-\d\d-\d\d",
        three.said("second"),
    )
    assert "controller.id_is_taken" in three.said(held)
    assert three.processes[held].poll() is None


def test_a_controller_with_the_leaders_id_ends_and_says_who_leads(three: Controllers) -> None:
    leader = leader_of(three)
    number = int(leader[1:])
    three.write("third", number, three.ports[0])
    assert three.format("third", "--replace-lost").returncode == 0
    third = three.start("third")
    assert third.wait(PATIENCE_S) == HALT_STATUS, three.said("third")
    assert (
        f"another process has the controller id {number}: the controller at"
        f" {HOST}:{three.ports[number]} leads the quorum" in three.said("third")
    )
    assert three.processes[leader].poll() is None
