"""Java's producer, group member and admin client that were connected before a node died.

``BARNABAS_DEATHS=20`` plays twenty deaths of each kind; the table of seconds is printed.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from pathlib import Path

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import OFFSETS_TOPIC
from tests.clients.checks import fresh
from tests.clients.connected import KINDS, PARTITIONS, PATIENCE_S, dies_as
from tests.peers import CLASS_PATH
from tests.process.load import wait_until_whole

DEATHS = int(os.environ.get("BARNABAS_DEATHS", "1"))
"""Of each kind."""
WITHIN_MS = 2_000
PROGRAM = Path(__file__).with_name("Connected.java")
pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka"),
    pytest.mark.slow,
    pytest.mark.timeout(120 + 60 * DEATHS),
]


class Java:
    """The program of `PROGRAM`: three clients that stay connected."""

    def __init__(self, bootstrap: str, topic: str, group: str, errors: Path) -> None:
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", CLASS_PATH, str(PROGRAM)]
        self._errors = errors.open("wb")
        self._process = subprocess.Popen(
            [*command, bootstrap, topic, group, str(PARTITIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def act(self) -> dict[str, int]:
        """All three act; the milliseconds that each took."""
        assert self._process.stdin is not None
        self._number += 1
        self._process.stdin.write(f"{self._number}\n")
        self._process.stdin.flush()
        took: dict[str, int] = {}
        while True:
            words = self._lines.get(timeout=PATIENCE_S).split()
            if words[0] == "done":
                return took
            assert words[0] in ("producer", "member", "admin"), words
            took[words[0]] = int(words[2])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


def test_java_clients_connected_before_act_within_two_seconds_of_a_death(tmp_path: Path) -> None:
    with Cluster(nodes=3) as cluster:
        topic, group = fresh("stays"), fresh("group")
        with connect(cluster.bootstrap) as client:
            client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        wait_until_whole(cluster, topic)
        java = Java(cluster.bootstrap, topic, group, tmp_path / "java.txt")
        took: dict[tuple[str, str], list[int]] = {}
        try:
            for kind in [kind for _ in range(DEATHS) for kind in KINDS]:
                java.act()
                victim = dies_as(cluster.bootstrap, kind, topic, group)
                cluster.kill(victim)
                for name, ms in java.act().items():
                    took.setdefault((name, kind), []).append(ms)
                cluster.restart(victim)
                wait_until_whole(cluster, topic)
                wait_until_whole(cluster, OFFSETS_TOPIC)
        finally:
            java.close()
            told = "\n".join(
                f"java {name:10} {kind + ' dies':18} worst {max(ms)} ms  median"
                f" {sorted(ms)[len(ms) // 2]} ms  of {len(ms)}"
                for (name, kind), ms in sorted(took.items())
            )
            print(f"\n{told}")
        assert all(len(ms) == DEATHS for ms in took.values()) and len(took) == 3 * len(KINDS), told
        assert max(max(ms) for ms in took.values()) < WITHIN_MS, told
