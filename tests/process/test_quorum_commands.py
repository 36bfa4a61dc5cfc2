"""A dynamic quorum of real processes: formatted standalone, grown, shrunk and recovered by commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from tests.json_shapes import assert_documented
from tests.process.launch import barnabas

pytestmark = pytest.mark.process
PATIENCE_S = 30.0
CLUSTER_ID = "ZHluYW1pYy1xdW9ydW0tdA"


class Nodes:
    """Combined nodes that find the quorum by controller.quorum.bootstrap.servers."""

    def __init__(self, directory: Path, count: int) -> None:
        self.directory = directory
        ports = FreePorts().take(2 * count)
        self.brokers = {n: ports[2 * n - 2] for n in range(1, count + 1)}
        controllers = {n: ports[2 * n - 1] for n in range(1, count + 1)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        servers = ",".join(f"127.0.0.1:{port}" for port in controllers.values())
        for node, port in self.brokers.items():
            self.file(node).write_text(
                "process.roles=broker,controller\n"
                f"node.id={node}\n"
                f"controller.quorum.bootstrap.servers={servers}\n"
                "controller.listener.names=CONTROLLER\n"
                f"listeners=PLAINTEXT://127.0.0.1:{port},"
                f"CONTROLLER://127.0.0.1:{controllers[node]}\n"
                f"log.dirs={directory / str(node)}\n"
            )

    def file(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def format(self, node: int, how: str) -> None:
        done = barnabas("storage", "format", "--cluster-id", CLUSTER_ID, how, str(self.file(node)))
        assert done.returncode == 0, done.stderr

    def start(self, node: int) -> None:
        command = [sys.executable, "-m", "barnabas", "node", "start", str(self.file(node))]
        with open(self.directory / f"{node}.log", "ab") as log:
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, node: int, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(node)
        process.send_signal(how)
        process.wait(PATIENCE_S)

    def quorum(self, *words: str) -> subprocess.CompletedProcess[str]:
        asked = min(self.processes, default=1)
        where = f"127.0.0.1:{self.brokers[asked]}"
        return barnabas("quorum", *words, "--bootstrap", where)

    def voters(self) -> list[int]:
        done = self.quorum("describe", "--json")
        if done.returncode != 0:
            return []
        return sorted(voter["node_id"] for voter in json.loads(done.stdout)["voters"])

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                logs = [p.read_text()[-1_500:] for p in sorted(self.directory.glob("*.log"))]
                raise AssertionError("\n".join([what, *logs]))

    def close(self) -> None:
        for node in list(self.processes):
            self.stop(node)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path, 3)
    yield nodes
    nodes.close()


def documented(command: str, printed: str) -> Any:
    """The JSON that it printed, in the documented shape."""
    found = json.loads(printed)
    assert_documented(command.split(), found)
    return found


def test_a_quorum_grows_shrinks_and_is_recovered_by_commands(nodes: Nodes) -> None:
    nodes.format(1, "--standalone")
    nodes.format(2, "--no-initial-controllers")
    nodes.format(3, "--no-initial-controllers")
    for node in (1, 2, 3):
        nodes.start(node)
    nodes.wait_for("node 1 leads alone", lambda: nodes.voters() == [1])

    second = barnabas(
        *("storage", "format", "--cluster-id", CLUSTER_ID, "--standalone", "--ignore-formatted"),
        str(nodes.file(2)),
    )
    assert second.returncode == 1 and "has a quorum already, led by node 1" in second.stderr

    tried = nodes.quorum("add-controller", str(nodes.file(2)), "--dry-run")
    assert tried.returncode == 0 and "voter to add: 2" in tried.stdout
    assert nodes.voters() == [1]
    for node in (2, 3):
        added = nodes.quorum("add-controller", str(nodes.file(node)), "--json")
        assert added.returncode == 0, added.stderr
        change = documented("quorum add-controller", added.stdout)
        assert [v["node_id"] for v in change["voters_before"]] == list(range(1, node))
    assert nodes.voters() == [1, 2, 3]
    twice = nodes.quorum("add-controller", str(nodes.file(3)))
    assert twice.returncode == 1 and "DUPLICATE_VOTER" in twice.stderr

    tried = nodes.quorum("remove-controller", "3", "--dry-run", "--json")
    change = documented("quorum remove-controller", tried.stdout)
    assert change["dry_run"] and "2 voters are left" in change["notes"][0]
    removed = nodes.quorum("remove-controller", "3")
    assert removed.returncode == 0, removed.stderr
    assert "continues as an observer" in removed.stdout
    assert "with controller.quorum.auto.join.enable=true it joins them again" in removed.stdout
    assert nodes.voters() == [1, 2]
    told = barnabas("cluster", "events", "-k", "quorum", "-b", f"127.0.0.1:{nodes.brokers[1]}")
    assert told.returncode == 0, told.stderr
    for change in ("1: are the first voters", "2: added to", "3: added to", "3: removed from"):
        assert f"quorum {change}" in told.stdout
    assert nodes.quorum("add-controller", str(nodes.file(3))).returncode == 0

    running = barnabas("quorum", "recover", str(nodes.file(3)), "--dry-run")
    assert running.returncode == 1 and "is running" in running.stderr
    for node in (1, 2):
        nodes.stop(node)
    # Two of three are down and none leads: it is a quorum all the same.
    third = barnabas(
        *("storage", "format", "--cluster-id", CLUSTER_ID, "--standalone", "--ignore-formatted"),
        str(nodes.file(2)),
    )
    assert third.returncode == 1 and "has a quorum already" in third.stderr
    nodes.stop(3)
    told = barnabas("quorum", "recover", str(nodes.file(3)), "--dry-run")
    assert told.returncode == 0, told.stderr
    assert "is lost" in told.stdout and "The last record here was written at 20" in told.stdout
    log = nodes.directory / "3" / "__cluster_metadata-0" / f"{0:020}.log"
    with log.open("ab") as file:
        file.write(log.read_bytes()[-50:-1])
    damaged = log.read_bytes()
    for words in (["--dry-run", "--cut"], ["--dry-run"], ["--yes"]):
        told = barnabas("quorum", "recover", str(nodes.file(3)), *words)
        assert "The log is corrupt after that" in told.stdout
        assert told.returncode == ("--cut" not in words)
        assert log.read_bytes() == damaged
    assert "give up what is missing with --cut" in told.stderr
    done = barnabas("quorum", "recover", str(nodes.file(3)), "--yes", "--cut", "--json")
    assert done.returncode == 0, done.stderr
    assert documented("quorum recover", done.stdout)["is_damaged"]
    nodes.start(3)
    nodes.wait_for("node 3 leads alone", lambda: nodes.voters() == [3])


def test_formatting_asks_who_votes_first(nodes: Nodes) -> None:
    done = barnabas("storage", "format", "--cluster-id", CLUSTER_ID, str(nodes.file(1)))
    assert done.returncode == 2
    assert "--standalone" in done.stderr
