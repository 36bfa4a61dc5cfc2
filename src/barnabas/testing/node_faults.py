"""Faults of single nodes, by the control of each: requests, disks, clocks.

A node that has ended forgets its faults; a fault is asked of a node that runs.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from barnabas.testing.faults_file import LOOPBACK, FaultsFile

ANSWER_S = 10.0


class FaultError(Exception):
    """A fault cannot be made; the text is one sentence."""


class RunningCluster(Protocol):
    """The cluster, as faults see it."""

    def pid(self, node_id: int) -> int: ...
    def is_alive(self, node_id: int) -> bool: ...
    def node(self, node_id: int) -> dict[str, Any]: ...
    def log_text(self, node_id: int) -> str: ...
    def wait_for(self, condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any: ...


class PlannedRequests:
    """The next requests of an API that a node answers otherwise."""

    def __init__(self, faults: NodeFaults, node_id: int, plan: int, what: str) -> None:
        self._faults = faults
        self._node_id = node_id
        self._plan = plan
        self._what = what

    def __repr__(self) -> str:
        return f"PlannedRequests({self._what})"

    @property
    def left(self) -> int:
        """How many of them are still to come."""
        return int(self._faults.command(self._node_id, "left", plan=self._plan))

    def wait(self, timeout_s: float = 30.0) -> None:
        """Until all of them have come. Raises `ClusterError`."""
        self._faults.cluster.wait_for(lambda: self.left == 0, self._what, timeout_s)


class NodeFaults:
    """Use it through `Cluster.faults`."""

    def __init__(self, cluster: RunningCluster, given: FaultsFile) -> None:
        self.cluster = cluster
        self._given = given

    # -- requests ------------------------------------------------------------------------------------

    def refuse(
        self, node_id: int, api: str, error: str, times: int = 1, *, client_id: str | None = None
    ) -> PlannedRequests:
        """The next requests of an API (``PRODUCE``) are not handled and answered with an error
        (``NOT_LEADER_OR_FOLLOWER``); of one client only, where `client_id` names one."""
        return self._plan(node_id, api, times, outcome="error", error=error, client_id=client_id)

    def answer_late(
        self,
        node_id: int,
        api: str,
        delay_s: float,
        times: int = 1,
        *,
        client_id: str | None = None,
    ) -> PlannedRequests:
        """The next requests are handled at once and answered later."""
        fields = {"ms": delay_s * 1000, "client_id": client_id}
        return self._plan(node_id, api, times, outcome="late", **fields)

    def answer_never(
        self,
        node_id: int,
        api: str,
        times: int = 1,
        *,
        client_id: str | None = None,
        handled: bool = True,
    ) -> PlannedRequests:
        """The next requests get no answer, and their connections none after it; `handled` says whether they
        take effect."""
        fields = {"handled": handled, "client_id": client_id}
        return self._plan(node_id, api, times, outcome="never", **fields)

    def _plan(self, node_id: int, api: str, times: int, **fields: Any) -> PlannedRequests:
        plan = self.command(node_id, "requests", api=api, times=times, **fields)
        what = f"{times} requests {api} to node {node_id} that it answers {fields['outcome']}"
        return PlannedRequests(self, node_id, plan, what)

    # -- disks and clocks ----------------------------------------------------------------------------

    def fill_disk(self, node_id: int, directory: str | Path | None = None) -> None:
        """A log directory has no room left, or all of the node's: returns once the node has noticed, by
        taking the directory offline, or by its end if no directory is left."""
        self._fail_disk(node_id, "full", directory)

    def fail_directory(self, node_id: int, directory: str | Path | None = None) -> None:
        """Reading and writing a log directory fails, or all of the node's: returns as `fill_disk` does."""
        self._fail_disk(node_id, "failing", directory)

    def directories(self, node_id: int) -> list[str]:
        """The log directories of a node; the first one has the metadata log, too."""
        return list(self.command(node_id, "disk", fault=None))

    def step_clock(self, node_id: int, step_s: float) -> None:
        """The node's date jumps, forwards or (negative) back; its timers do not."""
        self.command(node_id, "clock", ms=round(step_s * 1000))

    def clear(self, node_id: int) -> None:
        """Requests, disk and clock of the node work again. A directory that went offline stays so until
        the node restarts."""
        self.command(node_id, "clear")

    def _fail_disk(self, node_id: int, fault: str, directory: str | Path | None) -> None:
        asked = {"fault": fault, "directory": None if directory is None else str(directory)}
        before = len(self.cluster.log_text(node_id))
        failed = self.command(node_id, "disk", **asked)

        def is_noticed() -> bool:
            said = self.cluster.log_text(node_id)[before:]
            offline = [line for line in said.splitlines() if "log.directory_offline" in line]
            gone = all(any(f"path={name} " in line for line in offline) for name in failed)
            return gone or not self.cluster.is_alive(node_id)

        self.cluster.wait_for(is_noticed, f"node {node_id} to notice its disk")

    # -- the control ---------------------------------------------------------------------------------

    def command(self, node_id: int, name: str, **fields: Any) -> Any:
        """Have the control of a node do a command (`barnabas.testing.faulty_node.commands`). Waits for a node
        that starts. Raises `FaultError`."""
        port = self.port(node_id)
        line = json.dumps({"token": self._given.token, "do": name, **fields}).encode() + b"\n"
        try:
            with socket.create_connection((LOOPBACK, port), ANSWER_S) as connection:
                connection.sendall(line)
                with connection.makefile("rb") as answers:
                    answer = json.loads(answers.readline() or b"null")
        except (OSError, ValueError) as error:
            raise FaultError(f"node {node_id} cannot do {name}: {error}") from error
        if not isinstance(answer, dict) or "ok" not in answer:
            said = answer["error"] if isinstance(answer, dict) else "it ended"
            raise FaultError(f"node {node_id}: {said}")
        return answer["ok"]

    @property
    def token(self) -> str:
        """The secret that a command must show."""
        return self._given.token

    def port(self, node_id: int) -> int:
        """The port of a node's control; waits for a node that starts. Raises `FaultError`."""
        what = f"node {node_id} to open its control"
        return int(self.cluster.wait_for(lambda: self._port_of(node_id), what))

    def _port_of(self, node_id: int) -> int | None:
        """The port of the control, once the process that runs has said it."""
        if not self.cluster.is_alive(node_id):
            raise FaultError(f"node {node_id} does not run")
        try:
            said = json.loads(self._given.control_file(node_id).read_text())
        except (OSError, ValueError):
            return None
        return int(said["port"]) if said["pid"] == self.cluster.pid(node_id) else None
