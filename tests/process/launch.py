"""Starts the command line and node processes for tests, and ends what it started."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_S = 30.0
POLL_S = 0.01


def barnabas(*arguments: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


class Up:
    """One ``barnabas up``; `lines` has what it printed so far."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "up", "--data", str(data), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_line(self, start: str, patience_s: float | None = None) -> str:
        """The first line, of those printed before or from now on, that begins with `start`."""
        for line in self.lines:
            if line.startswith(start):
                return line
        deadline = time.monotonic() + (patience_s or PATIENCE_S)
        while True:
            left = deadline - time.monotonic()
            try:
                line = self._queue.get(timeout=max(left, 0.001))
            except queue.Empty:
                raise AssertionError(
                    f"no line {start!r} came: {self.lines}\n{self.logs()}"
                ) from None
            self.lines.append(line)
            if line.startswith(start):
                return line

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.data / "cluster.json").read_text())
        return state

    @property
    def pids(self) -> list[int | None]:
        return [node["pid"] for node in self.state["nodes"]]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Ask it to end; how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        return time.monotonic() - began

    def end(self) -> None:
        """Whatever happened before: leave nothing behind."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def logs(self) -> str:
        texts = []
        for log in sorted(self.data.glob("node-*/node.log")):
            texts.append(f"== {log.parent.name}\n{log.read_text(errors='replace')[-3000:]}")
        return "\n".join(texts)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that sends no signal."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        select.select([], [], [], POLL_S)


def has_ended(pid: int, within_s: float) -> bool:
    """Whether a process that is not our child is gone in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ready, _, _ = select.select([descriptor], [], [], within_s)
        return bool(ready)
    finally:
        os.close(descriptor)


def await_nothing(directory: Path) -> None:
    """Neither the directory nor a process that names it is there any more."""
    deadline = time.monotonic() + PATIENCE_S
    while directory.exists() or _processes(directory):
        assert time.monotonic() < deadline, (directory, _processes(directory))
        time.sleep(POLL_S)


def _processes(directory: Path) -> list[str]:
    """Those whose command names it, or that have a file of it open: a forked process has its parent's
    command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            files = [os.readlink(file) for file in (process / "fd").iterdir()]
        except OSError:
            continue
        if str(directory).encode() in words or any(str(directory) in file for file in files):
            found.append(f"{process.name} {words.decode(errors='replace')}")
    return found
