"""Apache Kafka's own tools move a replica between our log directories and describe them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from barnabas.host.client import connect
from tests.peers import CLASS_PATH
from tests.process.launch import wait_until
from tests.process.two_directories import TwoDirectories

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process]
RECORDS = 40


def kafka(main: str, *words: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx200m", "-cp", CLASS_PATH, f"org.apache.kafka.tools.{main}", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_reassign_partitions_moves_between_directories(tmp_path: Path) -> None:
    node = TwoDirectories(tmp_path)
    try:
        source, target = node.fill(RECORDS)
        plan = tmp_path / "plan.json"
        wanted = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [target]}
        plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        where = ("--bootstrap-server", node.bootstrap)
        tool = ("reassign.ReassignPartitionsCommand", *where, "--reassignment-json-file", str(plan))
        assert "Successfully started moving log directory" in kafka(*tool, "--execute")
        verify = [*tool, "--verify"]
        wait_until(lambda: "completed successfully" in moved(kafka(*verify)), "the move ends")
        told = kafka("LogDirsCommand", *where, "--describe", "--topic-list", "t")
        [line] = [line for line in told.splitlines() if line.startswith("{")]
        found = {
            directory["logDir"]: [(p["partition"], p["isFuture"]) for p in directory["partitions"]]
            for directory in json.loads(line)["brokers"][0]["logDirs"]
        }
        assert found == {source: [], target: [("t-0", False)]}
        with connect(node.bootstrap) as client:
            assert len(list(client.read(["t"]))) == RECORDS
    finally:
        node.kill()


def moved(told: str) -> str:
    """What it says of the directory, not of the broker."""
    return "\n".join(line for line in told.splitlines() if "Reassignment of replica" in line)
