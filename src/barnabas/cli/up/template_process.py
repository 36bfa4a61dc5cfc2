"""The template of clusters as a program: loads what ``barnabas up`` and its nodes need, and forks processes.

``python -m barnabas.cli.up.template_process DESCRIPTOR``; the descriptor is a socket on which
`barnabas.testing.template` asks for processes. It has one thread, so that a fork copies no lock that is held,
and its children close whatever they were not given. It ends when the socket ends and its children have: they
end themselves, because the pipe of their standard input ends as well.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import Any

from barnabas.cli.preloading import load_node
from barnabas.testing.template import LENGTH, READY_DESCRIPTOR

GIVEN = 5
"""Descriptors of a request: standard input, output and error, readiness and status."""
_LAST_DESCRIPTOR = 65_536


class TemplateProcess:
    """The loop of requests and of children that end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._statuses: dict[int, int] = {}
        """The pipe of each child's status, by its id."""
        self._woken, self._waking = os.pipe()
        for descriptor in (self._woken, self._waking):
            os.set_blocking(descriptor, False)

    def run(self) -> None:
        """Fork what is asked for until the socket ends; return after the last child."""
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        waiting = selectors.DefaultSelector()
        waiting.register(self._woken, selectors.EVENT_READ)
        waiting.register(self._control, selectors.EVENT_READ)
        is_open = True
        while is_open or self._statuses:
            ready = [key.fd for key, _ in waiting.select()]
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._tell_ends()
            if self._control.fileno() in ready and not self._answer():
                waiting.unregister(self._control)
                is_open = False

    def _answer(self) -> bool:
        """Fork one process. Returns False at the end of the socket."""
        try:
            head, given, _, _ = socket.recv_fds(self._control, LENGTH.size, GIVEN)
            body = self._receive(LENGTH.unpack(head)[0]) if head else b""
        except ConnectionError:
            return False
        if not body:
            return False
        *streams, status = given
        pid = os.fork()
        if pid == 0:
            self._become(json.loads(body), streams)
        for descriptor in streams:
            os.close(descriptor)
        self._statuses[pid] = status
        _tell(status, LENGTH.pack(pid))
        return True

    def _receive(self, size: int) -> bytes:
        """Empty where the socket ends before."""
        body = b""
        while len(body) < size:
            part = self._control.recv(size - len(body))
            if not part:
                return b""
            body += part
        return body

    def _tell_ends(self) -> None:
        """Write the status before the child's id becomes free for another process."""
        for pid, status in list(self._statuses.items()):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            by_signal = ended.si_code != os.CLD_EXITED
            _tell(status, str(-ended.si_status if by_signal else ended.si_status).encode())
            os.close(status)
            os.waitpid(pid, 0)
            del self._statuses[pid]

    def _become(self, request: dict[str, Any], streams: list[int]) -> None:
        """In the child: be as a process that was started from nothing, and run the command line."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _place(streams)
            self._control.detach()
            os.environ.clear()
            os.environ.update(request["environment"])
            time.tzset()
            os.chdir(request["folder"])
            from barnabas.cli.main import main

            status = main(request["arguments"])
        except BaseException:  # noqa: BLE001 - the last frame of this process
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(status)


def _place(streams: list[int]) -> None:
    """Give the descriptors the numbers from 0, and close all others. Their numbers are not among those, which
    the template itself has."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=number < READY_DESCRIPTOR)
    os.closerange(len(streams), _LAST_DESCRIPTOR)


def _tell(status: int, what: bytes) -> None:
    try:
        os.write(status, what)
    except BrokenPipeError:
        pass  # the process that waited for it has ended


def load_up() -> None:
    """Load what ``barnabas up`` needs itself, beside what its nodes need."""
    import barnabas.cli.local.node_start
    import barnabas.cli.local.readiness
    import barnabas.cli.main
    import barnabas.cli.up.up_line
    import barnabas.cli.up.up_run
    import barnabas.host.coordination
    import barnabas.host.secrets.config_files
    import barnabas.security.client_keys  # noqa: F401


def main(arguments: list[str]) -> int:
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    load_up()
    load_node(monitored=True)
    TemplateProcess(control).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
