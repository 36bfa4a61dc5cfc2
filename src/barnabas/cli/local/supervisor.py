"""Node processes of one cluster directory: started, watched, ended together.

Owns the processes and keeps ``cluster.json`` correct. It reports a node that dies and leaves it dead, or
restarts it if asked to; it watches and stops a node that was started by hand like the others. Nodes get
SIGTERM from the kernel when this process dies, however it dies. Does not know whether the cluster is
usable yet (`readiness`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles
from barnabas.cli.local.node_processes import execute_node, fork_node
from barnabas.cli.preloading import load_node
from barnabas.host.loop import Loop
from barnabas.host.system.processes import ProcessEnd, watch_process

STOP_S = 4.5
"""The time that a stop may take, longer than a node's own bound; nodes that still run after it are
killed, so that the stop is over within 5 s."""
RESTART_MIN_S = 0.2
RESTART_MAX_S = 30.0
WRITE_AGAIN_S = 0.5
"""After which what could not be written into cluster.json is tried again."""
_SAYS_NOTHING = ("was killed by SIGKILL", "ended with status 0")
"""Ends for which a node's last line gives no reason."""
STEADY_S = 10.0
"""A node that lived this long is started again at once, its history forgotten."""


class SupervisedNode:
    """One node's process, ours or adopted; `pid` None while it is dead."""

    def __init__(self, files: NodeFiles) -> None:
        self.files = files
        self.pid: int | None = None
        self.ours = False
        """Started here, so that its end is ours to take note of."""
        self.end: ProcessEnd | None = None
        self.started_at = 0.0
        self.backoff_s = 0.0

    @property
    def is_alive(self) -> bool:
        return self.pid is not None

    def send(self, number: signal.Signals) -> None:
        """An adopted node may be gone already: the process that started it reaps it."""
        with suppress(ProcessLookupError):
            if self.end is not None:
                self.end.send(number)

    def __repr__(self) -> str:
        return f"NodeProcess(node {self.files.node_id}, pid {self.pid})"


class Supervisor:
    """All nodes of a directory; they format what is not, as of `cluster_id`.

    `report` gets sentences for people; `on_change` is called when a node came or went; `on_stopped`
    once all have ended after `stop`.
    """

    def __init__(
        self,
        loop: Loop,
        directory: ClusterDirectory,
        nodes: list[NodeFiles],
        *,
        cluster_id: str,
        restart: bool,
        report: Callable[[str], None],
        on_change: Callable[[], None],
        on_stopped: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._directory = directory
        self._cluster_id = cluster_id
        self._restart = restart
        self._report = report
        self._on_change = on_change
        self._on_stopped = on_stopped
        self._stopping = False
        self._unwritten: list[tuple[Callable[[int, int], None], SupervisedNode, int]] = []
        """The changes that cluster.json does not have yet, the oldest first."""
        self.nodes = [SupervisedNode(files) for files in nodes]
        self.killed = 0

    @property
    def alive(self) -> list[SupervisedNode]:
        return [node for node in self.nodes if node.is_alive]

    def start(self) -> None:
        """Start every node."""
        load_node(monitored=any(node.files.metrics_port for node in self.nodes))
        for node in self.nodes:
            self._watch(node, fork_node(node.files, self._cluster_id, self._loop.close), ours=True)
        self._directory.write_state(
            [node.files for node in self.nodes],
            {node.files.node_id: node.pid for node in self.nodes},
        )

    def stop(self) -> None:
        """SIGTERM to all; SIGKILL to the nodes that still run after `STOP_S`."""
        if self._stopping:
            return
        self._stopping = True
        if not self.alive:
            self._on_stopped()
            return
        for node in self.alive:
            node.send(signal.SIGTERM)
        self._loop.call_later(STOP_S, self._kill_rest)

    def adopt(self) -> None:
        """Look into cluster.json for nodes that were started by hand."""
        state = self._directory.read_state() or {"nodes": []}
        pids = {entry["id"]: entry["pid"] for entry in state["nodes"]}
        for node in self.nodes:
            pid = pids.get(node.files.node_id)
            if node.is_alive or pid is None:
                continue
            try:
                self._watch(node, pid, ours=False)
            except ProcessLookupError:
                self._note_end(node, pid)
                continue
            if self._stopping:
                node.send(signal.SIGTERM)
            self._report(f"node {node.files.node_id} was started again: pid {pid}")
            self._on_change()

    def _watch(self, node: SupervisedNode, pid: int, *, ours: bool) -> None:
        node.end = watch_process(pid)
        node.pid = pid
        node.ours = ours
        node.started_at = time.monotonic()
        self._loop.add_reader(node.end.fd, self._on_exit, node)

    def _on_exit(self, node: SupervisedNode) -> None:
        assert node.end is not None
        self._loop.remove_reader(node.end.fd)
        node.end.close()
        pid, node.pid = node.pid, None
        assert pid is not None
        how = _how(os.waitpid(pid, 0)[1]) if node.ours else "ended"
        self._note_end(node, pid)
        self._on_change()
        if self._stopping:
            if not self.alive:
                self._on_stopped()
            return
        said = "" if how in _SAYS_NOTHING else last_line(node.files.log)
        self._report(f"node {node.files.node_id} {how}{': ' if said else ''}{said}")
        if self._restart:
            self._restart_later(node)
        self.adopt()  # one started by hand that told of itself before this end was heard of

    def _restart_later(self, node: SupervisedNode) -> None:
        if time.monotonic() - node.started_at > STEADY_S:
            node.backoff_s = 0.0
        self._loop.call_later(node.backoff_s, self._start_again, node)
        node.backoff_s = min(max(node.backoff_s * 2, RESTART_MIN_S), RESTART_MAX_S)

    def _start_again(self, node: SupervisedNode) -> None:
        if self._stopping or node.is_alive:
            return
        try:
            pid = execute_node(node.files, self._cluster_id)
        except OSError as error:
            self._report(f"node {node.files.node_id} cannot be started: {error.strerror}")
            self._restart_later(node)
            return
        self._watch(node, pid, ours=True)
        self._update(self._directory.set_pid, node, pid)
        self._report(f"node {node.files.node_id} was started again: pid {pid}")
        self._on_change()

    def _note_end(self, node: SupervisedNode, pid: int) -> None:
        self._update(self._directory.clear_pid, node, pid)

    def _update(self, change: Callable[[int, int], None], node: SupervisedNode, pid: int) -> None:
        """Change cluster.json. If it cannot be written now, the nodes keep running."""
        self._unwritten.append((change, node, pid))
        if len(self._unwritten) > 1:
            return  # behind what is tried again soon
        try:
            self._write()
        except OSError as error:
            self._report(f"{self._directory.state_file} cannot be written: {error.strerror}")
            self._loop.call_later(WRITE_AGAIN_S, self._write_again)

    def _write(self) -> None:
        while self._unwritten:
            change, node, pid = self._unwritten[0]
            if change != self._directory.set_pid or node.pid == pid:
                change(node.files.node_id, pid)
            del self._unwritten[0]

    def _write_again(self) -> None:
        try:
            self._write()
        except OSError:
            self._loop.call_later(WRITE_AGAIN_S, self._write_again)

    def _kill_rest(self) -> None:
        for node in self.alive:
            self.killed += 1
            self._report(f"node {node.files.node_id} did not end within {STOP_S} s: killed")
            node.send(signal.SIGKILL)


def last_line(log: Path) -> str:
    """The last line of a node's log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _how(wait_status: int) -> str:
    status = os.waitstatus_to_exitcode(wait_status)
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
