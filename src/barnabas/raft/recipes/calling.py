"""Calls between processes of a replicated service: JSON objects in frames of four bytes of length.

`serve` answers each object that comes with what `handle` gives to its `reply`; `PeerClient` asks one
endpoint at a time and fails the waiting calls when the connection ends. Answers keep no order: each
object carries the number of its question. For services built on the quorum; not Kafka's protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.ports import Connection, Listener, Network, Ports, call_all
from barnabas.types import Endpoint

FRAME_BYTES_MAX = 1024 * 1024
PROPOSAL_RETRY_MS = 50.0
"""Before what had no answer is asked again."""
Answer = dict[str, Any]
Reply = Callable[[Answer], None]
Handle = Callable[[dict[str, Any], Reply], None]


class ProposalError(Exception):
    """A change without an answer. `definite`: it was not made; otherwise it may be, now or later."""

    def __init__(self, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.definite = definite


class MalformedFrameError(ValueError):
    """A frame that no Barnabas peer sends: its connection is closed."""


class _Frames:
    """One end of a connection: bytes to objects and back."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._buffer = bytearray()
        self._space = memoryview(bytearray(64 * 1024))

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, size: int) -> None:
        self._buffer += self._space[:size]
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > FRAME_BYTES_MAX:
                self.abort()
                return
            if len(self._buffer) < 4 + length:
                return
            frame = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            self._on_frame(frame)

    def _on_frame(self, frame: bytes) -> None:
        try:
            message = json.loads(frame)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.abort()
            return
        try:
            self.on_message(message)
        except MalformedFrameError:
            self.abort()

    def on_message(self, message: dict[str, Any]) -> None:
        raise NotImplementedError

    def on_closed(self, error: OSError | None) -> None:
        self.connection = None

    def send(self, message: dict[str, Any]) -> None:
        if self.connection is not None:
            data = json.dumps(message, separators=(",", ":")).encode()
            self.connection.send([len(data).to_bytes(4, "big"), data])

    def abort(self) -> None:
        if self.connection is not None:
            self.connection.abort()


class _Served(_Frames):
    def __init__(self, handle: Handle) -> None:
        super().__init__()
        self._handle = handle

    def on_message(self, message: dict[str, Any]) -> None:
        number = message.get("number")
        self._handle(message, lambda answer: self.send({**answer, "number": number}))


def serve(network: Network, endpoint: Endpoint, handle: Handle) -> Listener:
    """Raises ``OSError`` where the address is taken."""
    return network.listen(endpoint, lambda: _Served(handle))


class _Asking(_Frames):
    def __init__(self, on_end: Callable[[], None]) -> None:
        super().__init__()
        self.waiting: dict[int, Callable[[Answer | None], None]] = {}
        self._on_end = on_end
        self._held: list[dict[str, Any]] = []
        self._given_up = False

    def on_connected(self, connection: Connection) -> None:
        super().on_connected(connection)
        held, self._held = self._held, []
        if self._given_up:
            connection.abort()
        for message in held:
            self.send(message)

    def ask(self, message: dict[str, Any]) -> None:
        if self.connection is None:
            self._held.append(message)
        else:
            self.send(message)

    def on_message(self, message: dict[str, Any]) -> None:
        on_answer = self.waiting.pop(int(message.get("number", -1)), None)
        if on_answer is not None:
            on_answer(message)

    def abort(self) -> None:
        """Waiting calls fail now, even while the connection is still closing or being established."""
        self._given_up = True
        super().abort()
        self._end()

    def on_closed(self, error: OSError | None) -> None:
        super().on_closed(error)
        self._end()

    def _end(self) -> None:
        self._on_end()
        self._held.clear()
        waiting, self.waiting = self.waiting, {}
        call_all(partial(on_answer, None) for on_answer in waiting.values())


class PeerClient:
    """Asks others. `on_answer` gets the answer, or None where the connection ended before it or there was
    none in time: a connection that is silent for so long is given up, with all that waits on it."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._connections: dict[Endpoint, _Asking] = {}
        self._number = 0

    def ask(
        self,
        endpoint: Endpoint,
        message: dict[str, Any],
        on_answer: Callable[[Answer | None], None],
        timeout_ms: float,
    ) -> None:
        connection = self._connections.get(endpoint)
        if connection is None:
            connection = self._connections[endpoint] = self._connect(endpoint)
        self._number += 1
        number = self._number
        now = self._ports.clock.now_ms()
        asked_of = connection

        def give_up() -> None:
            if number in asked_of.waiting:
                self._forget(endpoint, asked_of)
                asked_of.abort()

        wakeup = self._ports.wakeups.call_at(now + timeout_ms, give_up)

        def answered(answer: Answer | None) -> None:
            wakeup.cancel()
            on_answer(answer)

        connection.waiting[number] = answered
        connection.ask({**message, "number": number})

    def _connect(self, endpoint: Endpoint) -> _Asking:
        connection = _Asking(lambda: self._forget(endpoint, connection))
        self._ports.network.connect(endpoint, connection)
        return connection

    def _forget(self, endpoint: Endpoint, connection: _Asking) -> None:
        if self._connections.get(endpoint) is connection:
            del self._connections[endpoint]

    def keep_only(self, endpoint: Endpoint | None) -> None:
        """Close the connections to all other endpoints: the calls that wait there get no answer."""
        for other, connection in list(self._connections.items()):
            if other != endpoint:
                self._forget(other, connection)
                connection.abort()

    def close(self) -> None:
        self.keep_only(None)
