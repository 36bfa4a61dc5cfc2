"""Loopback ports that no process uses, for nodes that this command starts.

They lie below the range from which the system takes the ports of outgoing connections; otherwise such a
connection could take a port while its node is dead.
"""

from __future__ import annotations

import os
import random
import socket

from barnabas.cli.failure import Failure
from barnabas.host.system.figures import first_ephemeral_port

HOST = "127.0.0.1"
PORT_MIN = 10_000
PORT_MAX = 32_768


_given_before: set[int] = set()
"""Ports that this process gave out: the node that got one may not have bound it yet."""


class FreePorts:
    """Gives each port once; a new one once in a process."""

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._max = min(PORT_MAX, first_ephemeral_port() or PORT_MAX)
        self._random = random.Random(os.urandom(8))

    def take(self, count: int) -> list[int]:
        """`count` of them. Raises :class:`Failure` where none is left."""
        return [self.keep_or_take(None) for _ in range(count)]

    def keep_or_take(self, port: int | None) -> int:
        """`port` if it is still free, else another. Raises :class:`Failure` where none is left."""
        candidates = [] if port is None else [port]
        chosen = [self._random.randrange(PORT_MIN, self._max) for _ in range(1000)]
        candidates += [candidate for candidate in chosen if candidate not in _given_before]
        for candidate in candidates:
            if candidate not in self._given and _is_free(candidate):
                self._given.add(candidate)
                _given_before.add(candidate)
                return candidate
        raise Failure(f"no free port between {PORT_MIN} and {self._max} on {HOST}")


def require_free(port: int, whose: str) -> int:
    """`port`. Raises :class:`Failure` where another process has it."""
    if not 0 < port < 65536:
        raise Failure(f"there is no port {port} for {whose}", 2)
    if not _is_free(port):
        raise Failure(
            f"port {port}, which {whose} should have, is another process's: choose another --port"
        )
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
