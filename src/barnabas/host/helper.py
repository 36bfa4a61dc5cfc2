"""The helper process of a node: `HelperProcess` is the node's side, ``python -m barnabas.host.helper`` the
other.

The process is spawned, not forked: a fork would inherit sockets and locks. It serves one request at a time
over its standard input and output, with a low priority. It exits as soon as its input ends, also in the
middle of a request: a killed node leaves no process behind that writes into its directories.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from struct import Struct
from typing import IO, TYPE_CHECKING

from barnabas.host.disk import HostDisk
from barnabas.host.own_folder import own_folder
from barnabas.ports import HelperDied
from barnabas.record import kernel_cache

if TYPE_CHECKING:
    import subprocess

FRAME = Struct(">Q")
NICENESS = 10
SECRET_BYTES = 16


class HelperProcess:
    """``ports.Helper``. The first call starts the process; after its death the next call starts another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closes = 0
        self.starts = 0

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def call(self, service: str, request: bytes) -> bytes:
        name, closes = service.encode(), self._closes
        with self._lock:
            try:
                process = self._process or self._start()
                if (
                    self._closes != closes
                ):  # `close` was called while it started, and did not kill it
                    self._forget()
                    raise HelperDied("it was ended")
                assert process.stdin is not None and process.stdout is not None
                _write(process.stdin, name)
                _write(process.stdin, request)
                answer = _read(process.stdout)
            except OSError as error:
                self._forget()
                raise HelperDied(str(error)) from error
            if answer is None:
                raise HelperDied(f"it ended with status {self._forget()}")
            return answer

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess  # most nodes never need it

        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
        self.starts += 1
        self._process = subprocess.Popen(
            [sys.executable, "-m", "barnabas.host.helper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C in the terminal is for the node only
        )
        return self._process

    def _forget(self) -> int | None:
        """Kill the process and wait for its end. Returns its exit status; None if there is none."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        return process.wait()

    def close(self) -> None:
        self._closes += 1
        process = self._process
        if process is not None:
            process.kill()  # a job that waits for an answer gets `HelperDied`
        if self._lock.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._lock.release()


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(FRAME.pack(len(data)) + data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """One frame; None at the end of the stream."""
    head = stream.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    (size,) = FRAME.unpack(head)
    data = stream.read(size)
    return data if len(data) == size else None


# -- the process itself ------------------------------------------------------------------------------


def main() -> None:
    kernel_cache.fall_back_to(own_folder)
    requests: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(
        sys.stderr.fileno(), sys.stdout.fileno()
    )  # a library's print must not be taken for an answer
    with suppress(OSError):
        os.nice(NICENESS)
    threading.Thread(target=_take_requests, args=(requests,), daemon=True).start()
    services: dict[str, Callable[[bytes], bytes]] = {}
    while True:
        name, request = requests.get()
        if name not in services:
            services[name] = import_module(name).serve(HostDisk(), os.urandom(SECRET_BYTES))
        _write(answers, services[name](request))


def _take_requests(requests: SimpleQueue[tuple[str, bytes]]) -> None:
    """Read requests on a thread of its own, so that the node's end is noticed at once."""
    while True:
        name, request = _read(sys.stdin.buffer), _read(sys.stdin.buffer)
        if name is None or request is None:
            os._exit(0)
        requests.put((name.decode(), request))


if __name__ == "__main__":
    main()
