"""A node that is formatted for another cluster than the quorum it is sent to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.config.properties import parse_properties
from barnabas.host.ports import HALT_STATUS
from tests.process.launch import wait_until
from tests.process.test_node import CLUSTER_ID, format_storage, write_properties

pytestmark = [pytest.mark.process, pytest.mark.slow]
OTHER_ID = "b3RoZXItY2x1c3Rlci1pZA"


def start(file: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", str(file)], stderr=stderr
        )


def test_a_broker_of_another_cluster_names_both_clusters_and_its_directory(tmp_path: Path) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    voters = parse_properties(file.read_text())["controller.quorum.voters"]
    log = tmp_path / "log"
    broker = tmp_path / "broker"
    broker.mkdir()
    stranger = write_properties(broker, 2, process_roles="broker", controller_quorum_voters=voters)
    text = stranger.read_text().splitlines()
    text = [line.partition(",CONTROLLER:")[0] for line in text]
    stranger.write_text("\n".join(text) + "\n")
    format_storage(stranger, OTHER_ID)
    node = start(file, log)
    try:
        wait_until(lambda: "broker.unfenced" in log.read_text(), "the cluster runs")
        other = start(stranger, broker / "log")
        try:
            assert other.wait(15) == HALT_STATUS
        finally:
            other.kill()
            other.wait()
        said = (broker / "log").read_text()
        peer = voters.partition("@")[2]
        assert (
            f"{broker}/data is of cluster {OTHER_ID}, and {peer} is of cluster {CLUSTER_ID}" in said
        )
        assert "raft.peer_refuses" in said
        assert node.poll() is None
    finally:
        node.kill()
        node.wait()
