"""A distributed worker of Kafka Connect, with exactly-once sources, asked by its REST interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from barnabas.cli.local.free_ports import FreePorts
from tests.clients.checks import wait_for
from tests.interop.java_programs import JavaProcess
from tests.peers import CLASS_PATH_CLIENTS

PATIENCE_S = 180.0
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
JVM = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ConnectWorker:
    """One worker in a group of its own; `kill` is kill -9."""

    def __init__(
        self, bootstrap: str, folder: Path, name: str, class_path: str = CLASS_PATH_CLIENTS
    ) -> None:
        (port,) = FreePorts().take(1)
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "listeners": self.url,
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "scheduled.rebalance.max.delay.ms": "0",
            "plugin.discovery": "service_load",
        }
        for kind in ("config", "offset", "status"):
            settings[f"{kind}.storage.topic"] = f"{name}-{kind}"
            settings[f"{kind}.storage.replication.factor"] = "3"
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._java = JavaProcess(
            MAIN, str(file), log=folder / f"{name}.log", class_path=class_path, options=JVM
        )

    def start(self, connector: str, config: dict[str, str]) -> None:
        """Create the connector as soon as the worker answers, and wait until it and its tasks run."""
        wait_for(self._answers, "the worker to answer", PATIENCE_S)
        self._ask("PUT", f"/connectors/{connector}/config", config)
        wait_for(lambda: self.states(connector)[1:], "the connector's task", PATIENCE_S)
        wait_for(
            lambda: (
                set(self.states(connector)) & {"RUNNING", "FAILED"} == set(self.states(connector))
            ),
            "the connector to run",
            PATIENCE_S,
        )

    def states(self, connector: str) -> list[str]:
        """The connector's state, then its tasks'. Empty where the worker does not know it yet."""
        try:
            status = self._ask("GET", f"/connectors/{connector}/status")
        except urllib.error.HTTPError:
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def problem(self, connector: str) -> str | None:
        """A sentence with the trace of what has failed; None while everything runs."""
        if self._java.process.poll() is not None:
            return f"the worker has ended: {self._tail()}"
        status = self._ask("GET", f"/connectors/{connector}/status")
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                return f"{connector} has failed: {part.get('trace')}"
        return None

    def kill(self) -> None:
        self._java.kill()

    def _answers(self) -> bool:
        assert self._java.process.poll() is None, self._tail()
        try:
            self._ask("GET", "/")
        except OSError:
            return False
        return True

    def _tail(self) -> str:
        return self._java.log.read_text(errors="replace")[-2_000:]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)
