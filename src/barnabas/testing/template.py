"""The template of clusters: a process that has loaded what a cluster needs, and forks its processes.

Most of a cluster's start is spent on loading modules. The first cluster of a test run starts the template, or
`prepare` does so earlier, while tests are still being collected. A start is a request on a socket that only
the two processes have. It carries the arguments, the environment, the folder and the descriptors of the new
process, which differs in nothing from one that was started from nothing.

The template ends when the socket does, however this process ends, and after its children. Where a process
cannot be forked, or the interpreter's environment has changed, `start` starts a process from nothing.
The other side is `barnabas.cli.up.template_process`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from barnabas.testing.processes import (
    TELL_READY,
    ForkedProcess,
    Process,
    start_afresh,
)

PROGRAM = "barnabas.cli.up.template_process"
LENGTH = struct.Struct(">I")
"""The length of a request, which is JSON, ahead of it; the descriptors come with its first byte."""
READY_DESCRIPTOR = 3
"""The number of the descriptor on which a forked process says that it is ready."""
END_S = 5.0
"""How long `close` waits for the end of a template that has no children."""
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "BARNABAS_SYSTEM", "BARNABAS_POLLER")
"""Beginnings of the names of variables that the interpreter and modules read once."""


def can_fork() -> bool:
    """Whether this system has what a template needs."""
    return hasattr(os, "fork") and hasattr(os, "waitid") and hasattr(socket, "send_fds")


class Template:
    """The template of one process. Its methods may be called from any thread."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0
        """The process that has it: a child of that, forked by a test, does not."""
        self._environment: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def prepare(self) -> None:
        """Begin to load, if that has not begun; returns at once."""
        with self._lock:
            self._prepare()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes],
        ready: int | None = None,
    ) -> Process:
        """A process ``barnabas`` with `arguments`, whose output goes to `output`. It says a line on the
        descriptor `ready` once it is ready; both stay open here."""
        with self._lock:
            if can_fork():
                with suppress(OSError):
                    self._prepare()
                    if self._environment == _read_at_start(environment):
                        return self._fork(arguments, environment, output, ready)
        return start_afresh(arguments, environment, output, ready)

    def close(self) -> None:
        """End the template, once its children have ended."""
        with self._lock:
            self._forget()

    def _prepare(self) -> None:
        if not can_fork():
            return
        if self._owner != os.getpid():
            self._control = self._process = None
        if self._process is not None and self._process.poll() is not None:
            self._forget()
        if self._process is not None:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which ends its clusters
            )
        self._control, self._owner = ours, os.getpid()
        self._environment = _read_at_start(os.environ)

    def _forget(self) -> None:
        control, process = self._control, self._process
        self._control = self._process = None
        if control is None or process is None or self._owner != os.getpid():
            return
        control.close()
        with suppress(subprocess.TimeoutExpired):  # its children still run: it ends after them
            process.wait(END_S)

    def _fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes],
        ready: int | None,
    ) -> ForkedProcess:
        """Raises `OSError` where the template has died."""
        assert self._control is not None
        request: dict[str, Any] = {
            "arguments": [
                *arguments,
                *([] if ready is None else [TELL_READY, str(READY_DESCRIPTOR)]),
            ],
            "environment": dict(environment),
            "folder": os.getcwd(),
        }
        body = json.dumps(request).encode()
        stdin, to_stdin = os.pipe()
        status, to_status = os.pipe()
        try:
            given = [stdin, output.fileno(), output.fileno()]
            given += [to_status] if ready is None else [ready, to_status]
            socket.send_fds(self._control, [LENGTH.pack(len(body))], given)
            self._control.sendall(body)
            os.close(to_status)
            to_status = -1
            pid = os.read(status, LENGTH.size)
            if not pid:
                raise ConnectionResetError("the template has ended")
        except OSError:
            os.close(status)
            os.close(to_stdin)
            raise
        finally:
            os.close(stdin)
            if to_status >= 0:
                os.close(to_status)
        return ForkedProcess(LENGTH.unpack(pid)[0], status, os.fdopen(to_stdin, "wb"))


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


TEMPLATE = Template()
"""The template of this process."""
atexit.register(TEMPLATE.close)
