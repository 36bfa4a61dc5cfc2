"""A real node with two log directories, which moves replicas between them slowly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.process.launch import barnabas, wait_until
from tests.process.test_node import format_storage, write_properties

RATE, FULL_RATE = "2000000", "2000000000"
"""Bytes per second: a move of 40 MB takes twenty seconds, or one."""


class TwoDirectories:
    """`settings` go into its properties."""

    def __init__(self, home: Path, node_id: int = 1, **settings: str) -> None:
        self.paths = [str(home / "one"), str(home / "two")]
        self.file = write_properties(
            home,
            node_id,
            log_dirs=",".join(self.paths),
            log_segment_bytes=str(8 << 20),
            replica_alter_log_dirs_io_max_bytes_per_second=RATE,
            **settings,
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
        try:
            wait_until(lambda: "broker.unfenced" in self.log, "the node runs")
        except AssertionError:
            self.kill()
            raise

    def hurry(self) -> None:
        """From its next start on moves are not held up."""
        self.file.write_text(self.file.read_text().replace(RATE, FULL_RATE))

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def fill(self, records: int) -> tuple[str, str]:
        """Make the topic ``t`` with `records` of 100 kB; the directory that has it, and the other."""
        with connect(self.bootstrap) as client:
            client.create_topic("t")
            with client.producer() as producer:
                for at in range(records):
                    producer.send(ProducerRecord("t", b"%d " % at + b"v" * 100_000))
        source = next(path for path, found in self.replicas().items() if found)
        return source, next(path for path in self.paths if path != source)

    def replicas(self) -> dict[str, list[dict[str, object]]]:
        """Of the topic, by path."""
        told = barnabas("log", "dirs", "describe", "-b", self.bootstrap, "-t", "t", "--json")
        assert told.returncode == 0, told.stderr
        return {row["directory"]: row["replicas"] for row in json.loads(told.stdout)}

    def move(self, path: str, *more: str) -> subprocess.CompletedProcess[str]:
        return barnabas(
            "log", "dirs", "move", "t-0", "-n", "1", "--to", path, "-b", self.bootstrap, *more
        )
