"""Probes whether a process listens on a broker's advertised endpoint, after the broker's connection ended.

The endpoint of a dead process refuses connections, which is certain at once; a session time-out takes
seconds. Any other outcome (connected, unreachable, no answer) proves nothing. A listening socket may outlive
a connection for a moment, so the probe makes a few attempts with growing delays, until the broker is heard
from.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.ports import Connection, Network, Wakeup, Wakeups
from barnabas.types import Endpoint

RETRY_DELAYS_MS = (0.0, 20.0, 60.0, 150.0, 400.0, 1000.0)


class _Attempt:
    """One connection attempt. `done` gets whether it was refused."""

    def __init__(self, done: Callable[[bool], None]) -> None:
        self._done = done
        self._finished = False
        self._buffer = memoryview(bytearray(64))

    def on_connected(self, connection: Connection) -> None:
        self._finish(False)
        connection.abort()

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        """The probe sends no request: bytes that arrive are dropped."""

    def on_closed(self, error: OSError | None) -> None:
        self._finish(isinstance(error, ConnectionRefusedError))

    def _finish(self, refused: bool) -> None:
        if not self._finished:
            self._finished = True
            self._done(refused)


class ListenerProbe:
    """Connects to one broker's listener until it is refused, cancelled, or out of attempts."""

    def __init__(
        self,
        network: Network,
        wakeups: Wakeups,
        now_ms: Callable[[], float],
        endpoint: Endpoint,
        on_refused: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self._network = network
        self._wakeups = wakeups
        self._now_ms = now_ms
        self._on_refused = on_refused
        self._attempt = 0
        self._wakeup: Wakeup | None = None
        self._ended = False

    def start(self) -> None:
        self._schedule()

    def cancel(self) -> None:
        """Make no more attempts, and do not call `on_refused`."""
        self._ended = True
        if self._wakeup is not None:
            self._wakeup.cancel()

    @property
    def ended(self) -> bool:
        return self._ended

    def _schedule(self) -> None:
        if self._attempt >= len(RETRY_DELAYS_MS):
            self._ended = True
            return
        delay = RETRY_DELAYS_MS[self._attempt]
        self._attempt += 1
        if delay == 0:
            self._connect()
        else:
            self._wakeup = self._wakeups.call_at(self._now_ms() + delay, self._connect)

    def _connect(self) -> None:
        if not self._ended:
            self._network.connect(self.endpoint, _Attempt(self._answered))

    def _answered(self, refused: bool) -> None:
        if self._ended:
            return
        if refused:
            self._ended = True
            self._on_refused()
        else:
            self._schedule()
