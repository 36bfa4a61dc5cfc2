"""Apache Kafka's command tools in a Java machine that starts once: ``tests/interop/java/Tools.java``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from tests.clients.access import Access
from tests.interop.java_programs import Program
from tests.peers import RELEASE

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = (
    "kafka.admin.ConfigCommand" if RELEASE == "4.3" else "org.apache.kafka.tools.ConfigCommand"
)
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"


class Ran(NamedTuple):
    """What a command did: its exit code, what it printed, the seconds that it took."""

    code: int
    text: str
    seconds: float


class KafkaTools:
    """Runs tools in turn, each with connections of its own, as the client of `access`."""

    def __init__(self, access: Access, folder: Path, name: str) -> None:
        """`folder` gets ``<name>.properties`` of the client, and what the Java machine says."""
        properties = folder / f"{name}.properties"
        properties.write_text(access.file())
        self._where = [
            "--bootstrap-server", access.bootstrap, "--command-config", str(properties),
        ]  # fmt: skip
        self._program = Program(
            "Tools",
            log=folder / f"{name}.txt",
            options=["-Xmx256m", "-XX:+UseSerialGC", *access.java_options()],
        )
        self._program.wait_for_lines("ready")

    def run(self, main: str, *words: str) -> Ran:
        """One command to its end."""
        began, lines = time.monotonic(), self._program.lines
        lines.clear()
        self._program.say("\t".join([main, *self._where, *words]))
        self._program.wait_for_lines("exit ")
        text = "\n".join(line[2:] for line in lines[:-1])
        return Ran(int(lines[-1].split()[1]), text, time.monotonic() - began)

    def close(self) -> None:
        self._program.kill()
