"""A node whose properties are variables, as in a container: it serves, tells its health, and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.host.client import connect
from tests.process.launch import wait_until

pytestmark = pytest.mark.process

NODE = [sys.executable, "-m", "barnabas", "node"]


def test_a_node_of_variables_serves_and_tells_its_health(tmp_path: Path) -> None:
    client, controller, metrics = FreePorts().take(3)
    at = f"http://127.0.0.1:{metrics}"
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{client}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_METRICS_LISTENERS": at,
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(
            [*NODE, "start", "--from-environment"], env={**os.environ, **variables}, stderr=log
        )

    def health() -> subprocess.CompletedProcess[str]:
        command = [*NODE, "health", "--address", at]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    try:
        wait_until(lambda: health().returncode == 0, "the node is ready")
        assert json.loads(health().stdout)
        with connect(f"127.0.0.1:{client}") as connected:
            assert connected.describe_cluster().cluster_id == "4L6g3nShT-eMCtK--X86sw"
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
        assert health().returncode == 1
    finally:
        node.kill()
        node.wait()


def test_a_node_of_contradicting_variables_ends_with_a_sentence() -> None:
    ended = subprocess.run(
        [*NODE, "start", "--from-environment"],
        env={**os.environ, "KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/j"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("KAFKA_OPTS names a JAAS file")
