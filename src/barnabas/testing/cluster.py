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
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from barnabas.config.properties import FAULTS_KEY, FAULTS_VARIABLE, parse_properties
from barnabas.host.programs.removable_directory import mark_removable
from barnabas.host.system.processes import has_ended
from barnabas.testing.checks import Checks
from barnabas.testing.faults_file import FaultsFile, read_faults_file
from barnabas.testing.log_tails import tails_of
from barnabas.testing.moves import Moves
from barnabas.testing.node_faults import NodeFaults
from barnabas.testing.processes import Process, is_readable
from barnabas.testing.template import TEMPLATE

if TYPE_CHECKING:
    from barnabas.testing.links import Links

POLL_S = 0.02
FAULTS_FILE = "faults.json"
LOG_DIRECTORIES = 2
"""The log directories of a node with faults."""
KILL_S = 15.0
"""The time for a killed process to end: it may wait for a disk."""


class ClusterError(Exception):
    """A condition was not met in time, or `barnabas up` ended; the text has the last lines of the logs."""


class Cluster:
    """`nodes` combined broker and controller processes. Starts on ``__enter__`` or `start`."""

    def __init__(  # noqa: PLR0913 - a keyword for each option of `barnabas up`
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
        faults: bool = False,
        coordinators: bool = False,
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
            faults: Whether `links` and `faults` can be used. Connections then go through this process, and
                a node has two log directories, of which one may fail.
            coordinators: Whether the topics of the coordinators of groups and transactions are made at once,
                behind `start`; otherwise their first use makes them.
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
        self.moves = Moves(self)
        self.checks = Checks(self)
        self.links: Links | None = None
        """Links to cut, delay and limit; in a cluster with faults that this process has started."""
        self.faults: NodeFaults | None = None
        """Faults of nodes; in a cluster with faults that has started."""
        self._wants_faults = faults
        self._wants_coordinators = coordinators
        self._up: Process | None = None
        self._ready: int | None = None
        """The pipe by which `barnabas up` says that the cluster takes writes."""
        self._said: BinaryIO | None = None
        """up.log, for reading."""
        self._restarted: dict[int, Process] = {}

    @classmethod
    def attached(cls, directory: Path, *, secure: bool = False) -> Self:
        """A cluster that another process has started in `directory`. `stop` leaves it as it is."""
        found = cls(directory=directory, secure=secure)
        found.nodes = len(found.node_ids)
        if (directory / FAULTS_FILE).exists():
            found._find_faults(read_faults_file(directory / FAULTS_FILE))
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
        self._restarted = {}  # those of a run before
        arguments = ["up", "--nodes", str(self.nodes), "--data", str(self.directory / "cluster")]
        arguments.append("--end-with-input")  # a pipe of this process, which may be killed
        if self._own_directory:
            mark_removable(self.directory)
            arguments += ["--remove-at-end", str(self.directory)]
        if self._wants_faults:
            self.settings = {**self.settings, FAULTS_KEY: str(self._prepare_faults())}
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        if self.secure:
            arguments.append("--secure")
        if self._wants_coordinators:
            arguments.append("--coordinators")
        if self.racks:
            arguments += ["--racks", ",".join(self.racks)]
        if not any(self.directory.glob("cluster/node-*/data/meta.properties")):
            arguments += [] if self.release is None else ["--release", self.release]
            for feature, level in self.features.items():
                arguments += ["--feature", f"{feature}={level}"]
        with open(self.directory / "up.log", "ab") as log:
            # Kept open: the file may be removed before its end is read.
            self._said = open(self.directory / "up.log", "rb")  # noqa: SIM115
            self._said.seek(log.tell())
            ready, to_tell = os.pipe()
            try:
                self._up = TEMPLATE.start(arguments, self._environment(), log, to_tell)
            finally:
                os.close(to_tell)
                self._ready = ready
        self._await_readiness()

    def _prepare_faults(self) -> Path:
        """Open the links, and write the file that nodes with faults read."""
        from barnabas.testing.links import Links

        nodes = range(1, self.nodes + 1)
        self.links = Links(nodes, self.directory / "cluster")
        (self.directory / "control").mkdir(exist_ok=True)
        given = FaultsFile(
            os.urandom(16).hex(),
            str(self.directory / "control"),
            self.links.relay_port,
            self.links.advertised,
            LOG_DIRECTORIES,
        )
        given.write(self.directory / FAULTS_FILE)
        self._find_faults(given)
        return self.directory / FAULTS_FILE

    def _find_faults(self, given: FaultsFile) -> None:
        self.faults = NodeFaults(self, given)

    def _await_readiness(self) -> None:
        """`barnabas up` says a line once the cluster takes writes; if it ends before, that is an end."""
        assert self._up is not None and self._ready is not None
        if not is_readable(self._ready, self.start_timeout_s):
            text = f"waited {self.start_timeout_s} s for the cluster to take writes"
            raise ClusterError(f"{text}\n{tails_of(self.directory)}")
        if not os.read(self._ready, 16):
            raise ClusterError(f"`barnabas up` ended:\n{self._read_output()}")

    def _read_output(self) -> str:
        """The output of `barnabas up` in this run."""
        assert self._said is not None
        return self._said.read().decode(errors="replace")

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
        if self._said is not None:
            self._said.close()
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None
        if self.links is not None:
            self.links.close()
            self.links = None
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
            arguments = ["node", "start", *self._end_options(), node["properties"]]
            self._restarted[node_id] = TEMPLATE.start(arguments, self._environment(), log)

    def _end_options(self) -> list[str]:
        """Like `up`, a node ends with this process; where another one has started the cluster, with that."""
        return [] if self._up is None else ["--end-with-input"]

    def _environment(self) -> dict[str, str]:
        """That of this process; nodes obey the faults file only if it says that a test started them."""
        return {**os.environ, **({FAULTS_VARIABLE: "1"} if self.faults is not None else {})}

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
                raise ClusterError(f"waited {timeout_s} s for {what}\n{tails_of(self.directory)}")
            time.sleep(POLL_S)
