"""docs/separate-roles.md does what it says: its blocks are run, on loopback and with ports that are free."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local.free_ports import HOST, FreePorts
from tests.docs.blocks import ROOT, blocks
from tests.process.launch import PATIENCE_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]
PAGE = (ROOT / "docs" / "separate-roles.md").read_text()
MACHINES = {
    name: (node, role)
    for name, node, role in re.findall(
        r"^\| (\S+\.example) \| (\d+) \| (\w+) \|$", PAGE, re.MULTILINE
    )
}
BLOCKS = [(block.words, block.text) for block in blocks("docs/separate-roles.md") if block.words]
QUORUMS = {"static", "dynamic"}


class Machines:
    """Those of the page's table, as folders of one; `words` has what was said where."""

    def __init__(self, home: Path) -> None:
        self.home = home
        ports = FreePorts().take(len(MACHINES))
        self.ports = dict(zip(MACHINES, ports, strict=True))
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        bin_ = str(Path(sys.executable).parent)
        self.environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"}

    def here(self, text: str, machine: str = "") -> str:
        """A block with this test's addresses and, on a machine of the table, its folders."""
        for name, port in self.ports.items():
            text = re.sub(rf"{re.escape(name)}:\d+", f"{HOST}:{port}", text)
        if machine:
            text = re.sub(r"\$HOST:\d+", f"{HOST}:{self.ports[machine]}", text)
            text = text.replace("/etc/barnabas", f"{self.home}/{machine}/etc")
            text = text.replace("/var/lib/barnabas", f"{self.home}/{machine}/var")
        return text

    def run(self, text: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", self.here(text)],
            env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, machine: str, quorum: str) -> None:
        """All of the page's blocks that are for this machine, in their order; the last one starts it."""
        node, role = MACHINES[machine]
        mine = {"everywhere", f"{role}s"}
        blocks = [text for where, text in BLOCKS if where & mine and not where & QUORUMS - {quorum}]
        assert blocks[-1].startswith("barnabas node start")
        script = self.here("".join(blocks), machine).replace("barnabas node", "exec barnabas node")
        (self.home / machine / "etc").mkdir(parents=True)
        with self.log(machine).open("wb") as log:
            self.nodes[machine] = subprocess.Popen(
                ["sh", "-e", "-c", script],
                env={**self.environment, "HOST": HOST, "NODE_ID": node}, stdout=log, stderr=log,
            )  # fmt: skip

    def log(self, machine: str) -> Path:
        return self.home / machine / "log"

    def said(self, machine: str) -> str:
        return self.log(machine).read_text()

    def close(self) -> None:
        for node in self.nodes.values():
            node.terminate()
        for node in self.nodes.values():
            try:
                node.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    yield machines
    machines.close()


@pytest.mark.parametrize("quorum", sorted(QUORUMS))
def test_the_page_makes_a_cluster_of_separate_roles(machines: Machines, quorum: str) -> None:
    draw, look = [text for where, text in BLOCKS if where == {"anywhere"}]
    for name, value in re.findall(r"(\w+)=(\S+)", machines.run(draw)):
        machines.environment[name] = value
    for machine in MACHINES:
        machines.start(machine, quorum)
    for machine, (_, role) in MACHINES.items():
        if role == "broker":
            wait_until(lambda m=machine: "broker.unfenced" in machines.said(m), f"{machine} serves")  # type: ignore[misc]
    machines.run(look)
    bootstrap = f"{HOST}:{machines.ports['b1.example']}"
    told = json.loads(machines.run(f"barnabas quorum describe --json --bootstrap {bootstrap}"))
    assert sorted(voter["node_id"] for voter in told["voters"]) == [1, 2, 3]
    if quorum == "dynamic":
        known = {voter["directory_id"] for voter in told["voters"]}
        assert known == {machines.environment[name] for name in ("D1", "D2", "D3")}
    (first,) = json.loads(machines.run(f"barnabas topics describe first --json -b {bootstrap}"))
    replicas = [sorted(row["isr"]) for row in first["partition_list"]]
    assert replicas == [[11, 12]] * 4
    assert all(node.poll() is None for node in machines.nodes.values())
