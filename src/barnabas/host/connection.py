"""One TCP stream: bytes go from the socket straight into the receiver's buffers, and out by gather.

Invariants: `on_closed` is called once, last, and never from inside a call of the owner; bytes leave
in the order of `send`; after `abort` the receiver gets no byte.

A connection does not know frames. A receiver that fills its buffer is asked again, `READS_PER_TURN`
times at most, so that one fast peer does not keep the others waiting.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas import limits
from barnabas.host.loop import Loop, Timer
from barnabas.ports import Receiver
from barnabas.types import Buffer, Endpoint

READS_PER_TURN = 8
GATHER_MAX = 64
LINGER_S = 5.0
"""How long a close waits for a peer that does not read the queued bytes."""


class Traffic:
    """Totals over all connections of a node."""

    __slots__ = (
        "_on_drained", "bytes_in", "bytes_out", "closed", "faults", "opened", "peak", "unsent",
    )  # fmt: skip

    def __init__(self, on_drained: Callable[[], None]) -> None:
        """`on_drained` is called when most of more than `limits.FREED_BYTES_RETURNED` queued bytes are
        gone."""
        self.bytes_in = self.bytes_out = self.opened = self.closed = self.faults = 0
        self.unsent = 0
        """The bytes that are queued now."""
        self.peak = 0
        """The most queued bytes since the last call of `on_drained`."""
        self._on_drained = on_drained

    def queue(self, size: int) -> None:
        self.unsent += size
        self.peak = max(self.peak, self.unsent)

    def unqueue(self, size: int) -> None:
        self.unsent -= size
        if self.peak > limits.FREED_BYTES_RETURNED and self.unsent < self.peak // 8:
            self.peak = self.unsent
            self._on_drained()

    def describe(self) -> dict[str, int]:
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "bytes_unsent": self.unsent,
            "connections_opened": self.opened,
            "connections_closed": self.closed,
            "connection_faults": self.faults,
        }


class Owner(Protocol):
    """The part of its network that a connection needs."""

    @property
    def loop(self) -> Loop: ...
    @property
    def traffic(self) -> Traffic: ...

    def on_receiver_fault(self, connection: HostConnection, error: Exception) -> None: ...


class HostConnection:
    """``ports.Connection`` over a connected, non-blocking socket, which it owns."""

    __slots__ = (
        "_closing",
        "_fd",
        "_forget",
        "_linger_timer",
        "_loop",
        "_open",
        "_owner",
        "_peer",
        "_queue",
        "_reading",
        "_receiver",
        "_socket",
        "_traffic",
        "_unsent",
    )

    def __init__(
        self,
        owner: Owner,
        sock: socket.socket,
        peer: Endpoint,
        receiver: Receiver,
        forget: Callable[[HostConnection], None],
    ) -> None:
        self._owner = owner
        self._loop = owner.loop
        self._traffic = owner.traffic
        self._socket = sock
        self._fd = sock.fileno()
        self._peer = peer
        self._receiver = receiver
        self._forget = forget
        self._queue: deque[Buffer] = deque()
        self._unsent = 0
        self._open = True
        self._closing = False
        self._reading = False
        self._linger_timer: Timer | None = None

    def __repr__(self) -> str:
        state = "closing" if self._closing else "open" if self._open else "closed"
        return f"HostConnection({self._peer}, {state}, {self._unsent} unsent)"

    def start(self) -> None:
        """Tell the receiver that it is connected, then read."""
        self._traffic.opened += 1
        self._reading = True
        self._loop.add_reader(self._fd, self._on_readable)
        try:
            self._receiver.on_connected(self)
        except Exception as error:  # noqa: BLE001 - a receiver's fault ends its stream only
            self._on_fault(error)

    # -- ports.Connection --------------------------------------------------------------------------

    @property
    def peer(self) -> Endpoint:
        return self._peer

    @property
    def unsent_bytes(self) -> int:
        return self._unsent

    def send(self, parts: Sequence[Buffer]) -> None:
        if not self._open or self._closing:
            return
        if self._queue:
            self._put_off(parts, sum(map(len, parts)))
            return
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        sent = self._try_send(parts)
        if sent != size and self._open:
            self._put_off(parts, size)
            self._drop(sent)
            self._loop.add_writer(self._fd, self._on_writable)

    def close(self) -> None:
        if not self._open or self._closing:
            return
        if not self._unsent:
            self._end(None)
            return
        self._closing = True
        self.pause_reading()
        self._linger_timer = self._loop.call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        if self._open:
            self._end(None)

    @property
    def doing(self) -> str:
        """The last bytes of the connection, for the log."""
        receiver = self._receiver
        return getattr(receiver, "doing", "") or type(receiver).__name__

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if self._open and not self._closing and not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    # -- by the loop -------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        receiver = self._receiver
        for _ in range(READS_PER_TURN):
            try:
                view = receiver.get_buffer()
            except Exception as error:  # noqa: BLE001 - there may be no memory for what it announces
                self._on_fault(error)
                return
            try:
                room = len(view)
                size = self._socket.recv_into(view)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._end(error)
                return
            if not size:
                self._end(None)
                return
            del view
            self._traffic.bytes_in += size
            try:
                receiver.buffer_updated(size)
            except Exception as error:  # noqa: BLE001 - a receiver's fault ends its stream only
                self._on_fault(error)
                return
            if size < room or not self._reading:
                return

    def _on_writable(self) -> None:
        queue = self._queue
        while queue:
            count = min(len(queue), GATHER_MAX)
            sent = self._try_send([queue[i] for i in range(count)])
            if not self._open:
                return
            if not sent:
                return  # the loop calls again when the network takes more
            self._drop(sent)
        self._loop.remove_writer(self._fd)
        if self._closing:
            self._end(None)

    def _try_send(self, parts: Sequence[Buffer]) -> int:
        """Send as much of `parts` as the network takes now, and return how many bytes that was. An
        error ends the stream."""
        try:
            if len(parts) == 1:
                sent = self._socket.send(parts[0])
            else:
                sent = self._socket.sendmsg(parts[:GATHER_MAX])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error)
            return 0
        self._traffic.bytes_out += sent
        return sent

    def _put_off(self, parts: Sequence[Buffer], size: int) -> None:
        self._queue.extend(parts)
        self._unsent += size
        self._traffic.queue(size)

    def _drop(self, sent: int) -> None:
        """Remove `sent` bytes, and empty parts after them, from the front of the queue."""
        queue = self._queue
        self._unsent -= sent
        self._traffic.unqueue(sent)
        while queue:
            first = queue[0]
            if len(first) > sent:
                if sent:
                    queue[0] = memoryview(first)[sent:]
                return
            sent -= len(first)
            queue.popleft()

    def _on_fault(self, error: Exception) -> None:
        self._traffic.faults += 1
        try:
            self._owner.on_receiver_fault(self, error)
        finally:
            self._end(None)

    def _end(self, error: OSError | None) -> None:
        if not self._open:
            return
        self._open = False
        self.pause_reading()
        self._loop.remove_writer(self._fd)
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self._queue.clear()
        self._traffic.unqueue(self._unsent)
        self._unsent = 0
        with contextlib.suppress(OSError):  # the peer may have closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._traffic.closed += 1
        self._forget(self)
        self._loop.call_soon(self._receiver.on_closed, error)
