"""A replica moves from one log directory to another of a real node, which is killed on the way, twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.process.launch import barnabas, wait_until
from tests.process.test_node import format_storage, write_properties

pytestmark = [pytest.mark.process, pytest.mark.slow]
RECORDS = 400
RATE, FULL_RATE = "2000000", "2000000000"
"""Bytes per second: the move takes twenty seconds, or one."""


class Node:
    def __init__(self, home: Path) -> None:
        self.paths = [str(home / "one"), str(home / "two")]
        self.file = write_properties(
            home,
            log_dirs=",".join(self.paths),
            log_segment_bytes=str(8 << 20),
            replica_alter_log_dirs_io_max_bytes_per_second=RATE,
        )
        for line in self.file.read_text().splitlines():
            if line.startswith("listeners="):
                self.bootstrap = line.split("//")[1].split(",")[0]
        format_storage(self.file)
        self._log = home / "log"
        self.start()

    def start(self) -> None:
        with self._log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "node", "start", str(self.file)], stderr=stderr
            )
        wait_until(lambda: "broker.unfenced" in self.log, "the node runs")

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def replicas(self) -> dict[str, list[dict[str, object]]]:
        """Of the topic, by path."""
        told = barnabas("log", "dirs", "describe", "-b", self.bootstrap, "-t", "t", "--json")
        assert told.returncode == 0, told.stderr
        return {row["directory"]: row["replicas"] for row in json.loads(told.stdout)}

    def move(self, path: str, *more: str) -> subprocess.CompletedProcess[str]:
        return barnabas(
            "log", "dirs", "move", "t-0", "-n", "1", "--to", path, "-b", self.bootstrap, *more
        )


def test_a_replica_moves_though_its_node_is_killed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    try:
        with connect(node.bootstrap) as client:
            client.create_topic("t")
            with client.producer() as producer:
                for at in range(RECORDS):
                    producer.send(ProducerRecord("t", b"%d " % at + b"v" * 100_000))
        source = next(path for path, found in node.replicas().items() if found)
        target = next(path for path in node.paths if path != source)
        assert "LOG_DIR_NOT_FOUND" in node.move("/nowhere").stderr
        assert node.move(target).returncode == 0
        shown = node.replicas()[target][0]
        assert shown["future"] and int(str(shown["lag"])) > 0
        node.kill()
        node.start()
        wait_until(lambda: "log.moving" in node.log, "the move goes on")
        node.kill()
        node.file.write_text(node.file.read_text().replace(RATE, FULL_RATE))
        node.start()
        done = node.move(target, "--wait")
        assert (done.returncode, done.stdout[:10]) == (0, "1 replicas"), done.stderr
        assert [len(node.replicas()[path]) for path in (source, target)] == [0, 1]
        with connect(node.bootstrap) as client:
            numbers = [int((record.value or b"").split()[0]) for record in client.read(["t"])]
        assert numbers == list(range(RECORDS))
        assert "log.directory_offline" not in node.log and "Traceback" not in node.log
    finally:
        node.kill()
