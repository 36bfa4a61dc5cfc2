"""Three processes of a bare quorum on this machine, and what they say.

Used by the quorum's measurements and by the tests that kill and stop processes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from barnabas.cli.local.free_ports import FreePorts

NODES = (1, 2, 3)
PATIENCE_S = 30.0


class Leads(NamedTuple):
    """That `node` said `leader` leads `epoch`, at `at_s` of the machine's monotonic clock."""

    node: int
    at_s: float
    leader: int
    epoch: int


class Processes:
    """Voters 1, 2 and 3 below `root`. `seen` is all they said of leaders, in the order it was read."""

    def __init__(
        self, root: Path, in_flight: int = 0, seconds: float = 3600.0, sync_ms: float = 0.0
    ) -> None:
        self._root = root
        self._words = (str(in_flight), str(seconds), str(sync_ms))
        self._ports = ",".join(map(str, FreePorts().take(len(NODES))))
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.seen: list[Leads] = []
        self.result: dict[str, float] | None = None
        self._rest: dict[int, bytes] = {}

    def start(self, *nodes: int) -> None:
        for node in nodes or NODES:
            directory = self._root / str(node)
            directory.mkdir(parents=True, exist_ok=True)
            words = (str(node), str(directory), self._ports, *self._words)
            command = [sys.executable, "-m", "bench.quorum_node", *words]
            self.running[node] = subprocess.Popen(command, stdout=subprocess.PIPE)
            self._rest[node] = b""

    def kill(self, node: int) -> float:
        """kill -9; the instant just before."""
        process = self.running.pop(node)
        at_s = time.monotonic()
        process.kill()
        process.wait()
        self._close(process)
        return at_s

    def send(self, node: int, what: signal.Signals) -> None:
        self.running[node].send_signal(what)

    def cpu_s(self, node: int) -> float:
        """CPU time that a process has used so far, from the scheduler's own count."""
        said = Path(f"/proc/{self.running[node].pid}/schedstat").read_text()
        return int(said.split()[0]) / 1e9

    def read(self, timeout_s: float) -> None:
        """Take what the processes say within `timeout_s`."""
        outputs = {p.stdout: node for node, p in self.running.items() if p.stdout is not None}
        ready, _, _ = select.select(list(outputs), [], [], timeout_s)
        for output in ready:
            node = outputs[output]
            *lines, self._rest[node] = (self._rest[node] + os.read(output.fileno(), 65536)).split(
                b"\n"
            )
            for line in lines:
                self._take(node, json.loads(line))

    def _take(self, node: int, event: dict[str, Any]) -> None:
        if "leader" in event:
            self.seen.append(Leads(node, event["at_s"], event["leader"], event["epoch"]))
        else:
            self.result = event

    def wait_for(self, done: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """Raises `TimeoutError`."""
        deadline = time.monotonic() + patience_s
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"seen: {self.seen[-10:]}")
            self.read(0.05)

    def watch(self, seconds: float) -> list[Leads]:
        """What they say of leaders within `seconds`."""
        before, until = len(self.seen), time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)
        return self.seen[before:]

    @property
    def leader(self) -> Leads | None:
        """The newest leader that runs and said so of itself."""
        own = [s for s in self.seen if s.leader == s.node and s.node in self.running]
        newest = max((s.epoch for s in self.seen), default=-1)
        return next((s for s in reversed(own) if s.epoch == newest), None)

    def agreed(self) -> bool:
        """Whether all that run know the same leader, and it runs and may write."""
        leader = self.leader
        last = {s.node: (s.leader, s.epoch) for s in self.seen}
        return leader is not None and all(
            last.get(node) == (leader.leader, leader.epoch) for node in self.running
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in list(self.running):
            self.kill(node)

    @staticmethod
    def _close(process: subprocess.Popen[bytes]) -> None:
        if process.stdout is not None:
            process.stdout.close()
