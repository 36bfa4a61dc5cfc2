"""A command line of Barnabas as a process of its own: forked from the template, or started from nothing.

Both kinds have the members of `subprocess.Popen` that `Cluster` uses.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

from barnabas.host.system.processes import has_ended

TELL_READY = "--tell-ready"
"""The option of ``barnabas up`` that names the descriptor on which it says a line once it is ready."""


class Process(Protocol):
    """A process that this one has started."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def send_signal(self, sig: int) -> None: ...


class ForkedProcess:
    """A child of the template, which writes the child's exit status into `status` when it ends."""

    def __init__(self, pid: int, status: int, stdin: IO[bytes]) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._status = status

    def __repr__(self) -> str:
        return f"ForkedProcess({self.pid}, {self.returncode})"

    def poll(self) -> int | None:
        """The exit status; None while the process runs."""
        if self.returncode is None and is_readable(self._status, 0.0):
            self._read_status(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises `subprocess.TimeoutExpired`."""
        until = None if timeout is None else time.monotonic() + timeout
        if self.returncode is None and is_readable(self._status, timeout):
            self._read_status(None if until is None else max(0.0, until - time.monotonic()))
        if self.returncode is None:
            raise subprocess.TimeoutExpired(["barnabas"], timeout or 0.0)
        return self.returncode

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, sig: int) -> None:
        """The template waits for its child only after it has written the status, so `pid` is still the
        child's while there is none."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def _read_status(self, timeout_s: float | None) -> None:
        said = os.read(self._status, 64)
        if not said:  # the template was killed: only the kernel knows of the child now
            if not has_ended(self.pid, sys.maxsize if timeout_s is None else timeout_s):
                return
            said = str(-signal.SIGKILL).encode()
        self.returncode = int(said)
        os.close(self._status)


def start_afresh(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes],
    ready: int | None = None,
) -> subprocess.Popen[bytes]:
    """A process that loads everything itself. It has the descriptor `ready` as well, and says a line there
    once it is ready."""
    telling = [] if ready is None else [TELL_READY, str(ready)]
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", *arguments, *telling],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        pass_fds=[] if ready is None else [ready],
    )


def is_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Whether `descriptor` has something to read, or its end, within the time."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(descriptor, selectors.EVENT_READ)
        return bool(waiting.select(timeout_s))
