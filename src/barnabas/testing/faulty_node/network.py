"""Connections of a node to other nodes, through the relay of the cluster's links.

The node tells the relay who it is and where it wants to go in one line, and the relay answers with one byte:
`CONNECTED`, from which on the stream is the other node's, or `REFUSED`, since no process listens there.
"""

from __future__ import annotations

import errno
import os

from barnabas.host.network import HostNetwork
from barnabas.host.ports import HostPorts
from barnabas.ports import Connection, Receiver, Wakeup
from barnabas.types import Endpoint

CONNECTED, REFUSED = b"+", b"-"


def introduction(node_id: int, to: Endpoint) -> bytes:
    """The line with which a node begins."""
    return f"{node_id} {to.host} {to.port}\n".encode()


class IntroducedReceiver:
    """The ``ports.Receiver`` of a connection until the relay has reached the other node; then `receiver`."""

    def __init__(self, receiver: Receiver, line: bytes, ports: HostPorts) -> None:
        self._receiver = receiver
        self._line = line
        self._ports = ports
        self._byte = memoryview(bytearray(1))
        self._connection: Connection | None = None
        self._deadline: Wakeup | None = None
        self._error: OSError | None = None
        self._is_through = False

    def __repr__(self) -> str:
        return f"IntroducedReceiver({self._line.decode().strip()})"

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        connection.send([self._line])
        at_ms = self._ports.clock.now_ms() + self._ports.network.options.connect_timeout_ms
        self._deadline = self._ports.wakeups.call_at(at_ms, self._on_late)

    def get_buffer(self) -> memoryview:
        return self._byte

    def buffer_updated(self, size: int) -> None:
        assert self._connection is not None
        self._cancel()
        if bytes(self._byte) != CONNECTED:
            self._fail(ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))
            return
        self._is_through = True
        self.get_buffer = self._receiver.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = self._receiver.buffer_updated  # type: ignore[method-assign]
        self._receiver.on_connected(self._connection)

    def on_closed(self, error: OSError | None) -> None:
        self._cancel()
        if not self._is_through and self._error is None:
            error = error or ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._receiver.on_closed(self._error or error)

    def _on_late(self) -> None:
        self._fail(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _fail(self, error: OSError) -> None:
        assert self._connection is not None
        self._error = error
        self._connection.abort()

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


class LinkedNetwork(HostNetwork):
    """``ports.Network`` whose outgoing connections go through the relay."""

    def introduce(self, node_id: int, relay: Endpoint, ports: HostPorts) -> None:
        """Connect as `node_id` through `relay`; called before the first connection."""
        self._node_id, self._relay, self._ports = node_id, relay, ports

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        line = introduction(self._node_id, endpoint)
        super().connect(self._relay, IntroducedReceiver(receiver, line, self._ports))
