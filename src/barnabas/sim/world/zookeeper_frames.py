"""How the twin's clients and servers speak: length-prefixed values, both ends being this process."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import Any

from barnabas.ports import Connection

CONNECT, REQUEST, PING, CLOSE = "connect", "request", "ping", "close"
"""The frames that a client sends."""
ADMITTED, ANSWER, EVENT = "admitted", "answer", "event"
"""The frames that a server sends, and `PING` back."""
BUFFER_BYTES = 64 * 1024


def send_frame(connection: Connection, *values: object) -> None:
    data = pickle.dumps(values)
    connection.send((len(data).to_bytes(4, "big"), data))


class ValueReader(ABC):
    """The reading half of a ``ports.Receiver``: calls `on_frame` with the values of each frame."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._data = bytearray()

    @abstractmethod
    def on_frame(self, kind: str, *values: Any) -> None:
        """A frame has come whole."""

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self._data += self._buffer[:size]
        while len(self._data) >= 4:
            end = 4 + int.from_bytes(self._data[:4], "big")
            if len(self._data) < end:
                return
            values: tuple[Any, ...] = pickle.loads(bytes(self._data[4:end]))
            del self._data[:end]
            self.on_frame(*values)
