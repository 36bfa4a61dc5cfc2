"""A cluster of real node processes, started by ``barnabas up``, for tests that kill and restart nodes.

>>> with Cluster(nodes=3) as cluster:            # doctest: +SKIP
...     client = SomeKafkaClient(cluster.bootstrap)
...     cluster.kill(cluster.node_ids[0])

When the cluster stops, all processes that it started end. They also end if this process ends
without stopping the cluster. Every wait is for a condition; the error of a time-out names it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from barnabas.config.properties import parse_properties
from barnabas.host.programs.removable_directory import mark_removable
from barnabas.host.system.processes import has_ended

POLL_S = 0.02
KILL_S = 15.0
"""The time for a killed process to end: it may wait for a disk."""


class ClusterError(Exception):
    """A condition was not met in time, or `barnabas up` ended; the text has the last lines of the logs."""


class Cluster:
    """`nodes` combined broker and controller processes. Starts on ``__enter__`` or `start`."""

    def __init__(
        self,
        nodes: int = 3,
        directory: Path | str | None = None,
        settings: dict[str, str] | None = None,
        start_timeout_s: float = 60.0,
        racks: Sequence[str] = (),
        *,
        secure: bool = False,
        release: str | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        """Only prepares; `start` starts the processes.

        Args:
            nodes: Number of nodes.
            directory: Where data and logs go and stay; None is a temporary directory, which `stop` removes.
            settings: Configuration keys of every node.
            start_timeout_s: How long `start` waits until the cluster takes writes.
            racks: Racks that are dealt to the nodes in turn.
            secure: TLS and SASL on every listener; `client_properties` are what a client needs then.
            release: The release of Apache Kafka, as ``4.3``, whose feature levels a new cluster has, so that
                its brokers may join; None is the newest.
            features: Levels of single features of a new cluster.
        """
        self._own_directory = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="barnabas-"))
        self.nodes = nodes
        self.settings = settings or {}
        self.start_timeout_s = start_timeout_s
        self.racks = racks
        self.secure = secure
        self.release = release
        self.features = dict(features or {})
        self._up: subprocess.Popen[bytes] | None = None
        self._old_log_bytes = 0
        """The bytes of earlier runs in this directory's up.log."""
        self._restarted: dict[int, subprocess.Popen[bytes]] = {}

    @classmethod
    def attached(cls, directory: Path, *, secure: bool = False) -> Self:
        """A cluster that another process has started in `directory`. `stop` leaves it as it is."""
        found = cls(directory=directory, secure=secure)
        found.nodes = len(found.node_ids)
        return found

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the processes and wait until the cluster takes writes.

        Raises:
            ClusterError: It does not in `start_timeout_s`; all processes have been stopped.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = ["up", "--nodes", str(self.nodes), "--data", str(self.directory / "cluster")]
        arguments.append("--end-with-input")  # a pipe of this process, which may be killed
        if self._own_directory:
            mark_removable(self.directory)
            arguments += ["--remove-at-end", str(self.directory)]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        if self.secure:
            arguments.append("--secure")
        if self.racks:
            arguments += ["--racks", ",".join(self.racks)]
        if not any(self.directory.glob("cluster/node-*/data/meta.properties")):
            arguments += [] if self.release is None else ["--release", self.release]
            for feature, level in self.features.items():
                arguments += ["--feature", f"{feature}={level}"]
        with open(self.directory / "up.log", "ab") as log:
            self._old_log_bytes = log.tell()
            self._up = subprocess.Popen(
                [sys.executable, "-m", "barnabas", *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self.wait_for(self._is_ready, "the cluster to take writes", self.start_timeout_s)

    def _is_ready(self) -> bool:
        assert self._up is not None
        if self._up.poll() is not None:
            raise ClusterError(f"`barnabas up` ended:\n{self._tail(self.directory / 'up.log')}")
        return b"bootstrap:" in (self.directory / "up.log").read_bytes()[self._old_log_bytes :]

    def stop(self) -> None:
        """Stop every process cleanly, or kill it after 15 s. Removes the directory if it is temporary."""
        processes = [p for p in [self._up, *self._restarted.values()] if p is not None]
        for process in processes:
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a paused process would not act on SIGTERM
        for process in processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    # -- what runs where -------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The content of ``cluster.json``, which `barnabas up` keeps."""
        state: dict[str, Any] = json.loads((self.directory / "cluster/cluster.json").read_text())
        return state

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of all brokers."""
        return str(self.state["bootstrap"])

    @property
    def client_file(self) -> Path:
        """The administrator's properties, for a client of a secure cluster."""
        return self.directory / "cluster/client.properties"

    @property
    def client_properties(self) -> dict[str, str]:
        """The content of `client_file`; empty for a cluster that is not secure."""
        return parse_properties(self.client_file.read_text()) if self.secure else {}

    @property
    def node_ids(self) -> list[int]:
        return [node["id"] for node in self.state["nodes"]]

    def node(self, node_id: int) -> dict[str, Any]:
        """The node's entry in ``cluster.json``: id, pid, listeners, properties, log.

        Raises:
            KeyError: The cluster has no such node.
        """
        for node in self.state["nodes"]:
            if node["id"] == node_id:
                return dict(node)
        raise KeyError(node_id)

    def pid(self, node_id: int) -> int:
        """The id of the node's process. Raises ProcessLookupError where `barnabas up` saw it end."""
        restarted = self._restarted.get(node_id)
        pid: int | None = restarted.pid if restarted is not None else self.node(node_id)["pid"]
        if pid is None:
            raise ProcessLookupError(f"node {node_id} has ended")
        return pid

    def log_text(self, node_id: int) -> str:
        return Path(self.node(node_id)["log"]).read_text(errors="replace")

    # -- faults ----------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """kill -9; the process has ended when this returns."""
        os.kill(self.pid(node_id), signal.SIGKILL)
        self.wait_for(lambda: not self.is_alive(node_id), f"node {node_id} to end", KILL_S)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the process exists and answers nothing."""
        os.kill(self.pid(node_id), signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        os.kill(self.pid(node_id), signal.SIGCONT)

    def terminate(self, node_id: int) -> None:
        """SIGTERM: a controlled shutdown."""
        os.kill(self.pid(node_id), signal.SIGTERM)

    def restart(self, node_id: int) -> None:
        """Start a node that has ended, by ``barnabas node start``. Waits 15 s for a node that still ends."""
        node = self.node(node_id)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self.wait_for(lambda: not self.is_alive(node_id), f"node {node_id} to end", 15)
        with open(node["log"], "ab") as log:
            self._restarted[node_id] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "node", "start", node["properties"]],
                stdout=log,
                stderr=log,
            )

    def is_alive(self, node_id: int) -> bool:
        restarted = self._restarted.get(node_id)
        if restarted is not None:
            return restarted.poll() is None
        pid = self.node(node_id)["pid"]
        return pid is not None and not has_ended(pid)  # None: `up` has noticed its end

    # -- waiting ---------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
        """Wait until `condition` returns a true value, and return this value.

        Raises:
            ClusterError: It did not within `timeout_s`; the error names `what` and has the logs' last lines.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {timeout_s} s for {what}\n{self._logs()}")
            time.sleep(POLL_S)

    def _logs(self) -> str:
        files = [self.directory / "up.log", *sorted(self.directory.glob("cluster/node-*/node.log"))]
        return "\n".join(
            f"== {file.name} of {file.parent.name}\n{self._tail(file)}" for file in files
        )

    @staticmethod
    def _tail(file: Path, lines: int = 25) -> str:
        try:
            return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return str(error)
