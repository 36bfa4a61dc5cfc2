"""A process of one node, Barnabas or Apache Kafka, that is formatted and started from the same properties."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.peers import CLASS_PATH

CLUSTER_ID = "bWl4ZWQtcXVvcnVtLXRlcw"
JVM = ["java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH]


class NodeProcess:
    """A node of `properties` in `directory`, made here: Apache Kafka if `java`. Its output is in ``out``."""

    def __init__(self, directory: Path, properties: str, *, java: bool) -> None:
        directory.mkdir()
        file = directory / "server.properties"
        file.write_text(properties)
        python = [sys.executable, "-m", "barnabas"]
        form = [*JVM, "kafka.tools.StorageTool"] if java else [*python, "storage"]
        tail = (
            ["-t", CLUSTER_ID, "-c", str(file)] if java else ["--cluster-id", CLUSTER_ID, str(file)]
        )
        subprocess.run([*form, "format", *tail], check=True, capture_output=True, timeout=60)
        start = [*JVM, "kafka.Kafka"] if java else [*python, "node", "start"]
        self._log = (directory / "out").open("wb")
        self._process = subprocess.Popen([*start, str(file)], stdout=self._log, stderr=self._log)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
