"""A node under KRaft loads what it serves with, and no module of the wings that other nodes need."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launch import wait_until
from tests.process.test_node import CLUSTER_ID, write_properties

pytestmark = [pytest.mark.process, pytest.mark.slow]

NODE = """
import sys
from barnabas.host.main import main
status = main(sys.argv[1:])
print("\\n".join(sorted(sys.modules)))
sys.exit(status)
"""
WINGS = (
    "zookeeper", "sim", "demo", "testing", "host.zookeeper", "share", "group.share", "broker.share",
    "group.streams",
)  # fmt: skip


def test_a_node_under_kraft_loads_no_wing(tmp_path: Path) -> None:
    """Neither at its start, nor while it serves, nor at its controlled shutdown."""
    file = write_properties(tmp_path)
    log, loaded = tmp_path / "log", tmp_path / "loaded"
    with log.open("wb") as stderr, loaded.open("wb") as stdout:
        node = subprocess.Popen(
            [sys.executable, "-c", NODE, "--format-as", CLUSTER_ID, str(file)],
            stderr=stderr,
            stdout=stdout,
        )
    try:
        wait_until(lambda: "broker.unfenced" in log.read_text(), "the node serves")
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0, log.read_text()
    finally:
        node.kill()
        node.wait()
    modules = loaded.read_text().split()
    assert {"barnabas.node.node", "barnabas.broker.handlers.produce"} <= set(modules)
    of_wings = tuple(f"barnabas.{wing}." for wing in WINGS)
    assert [name for name in modules if f"{name}.".startswith(of_wings)] == []
