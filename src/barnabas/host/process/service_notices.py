"""Reports this node's state to the service manager, as systemd's ``sd_notify`` does: READY, STATUS,
WATCHDOG and STOPPING, in datagrams to the socket that ``NOTIFY_SOCKET`` names.

READY is sent once, when the node is ready for the first time; STATUS whenever the reason why it is
not ready changes; WATCHDOG at least twice in ``WATCHDOG_USEC``, by the node's own loop, so a loop
that hangs sends nothing. If the socket cannot be reached, one line is logged.

Source: systemd's sd_notify(3) and sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping

from barnabas.host.loop import Loop

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE = "WATCHDOG_PID"
LOOK_S = 0.25
"""The interval of checks of the node's state."""

Log = Callable[..., None]


class ServiceNotices:
    """The notices of one process, from `start` to `stop`."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        environment: Mapping[str, str],
        why_not_ready: Callable[[], str],
    ) -> None:
        """`why_not_ready` returns the reason in a sentence; empty where the node is ready."""
        self._loop = loop
        self._log = log
        address = environment.get(SOCKET_VARIABLE, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._why_not_ready = why_not_ready
        self._watchdog_s = watchdog_s(environment)
        self._socket: socket.socket | None = None
        self._status: str | None = None
        self._was_ready = self._is_stopping = False
        self._has_ended = self._has_failed = False

    @property
    def are_wanted(self) -> bool:
        return bool(self._address)

    def start(self) -> None:
        """Begin to send notices, if a service manager asks for them."""
        if self.are_wanted:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._look()

    def stop(self) -> None:
        self._has_ended = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def stopping(self) -> None:
        """Report that the node begins its shutdown."""
        self._is_stopping = True
        self._send("STOPPING=1\nSTATUS=the node shuts down")

    def _look(self) -> None:
        if self._has_ended:
            return
        interval_s = min(LOOK_S, self._watchdog_s / 2) if self._watchdog_s else LOOK_S
        self._loop.call_later(interval_s, self._look)  # first: a fault below ends no watchdog
        why = self._why_not_ready()
        becomes_ready = not why and not self._was_ready
        status = why or "ready"
        lines = ["READY=1"] if becomes_ready else []
        if status != self._status and not self._is_stopping:
            lines.append(f"STATUS={status}")
        if self._watchdog_s:
            lines.append("WATCHDOG=1")
        if lines and self._send("\n".join(lines)):
            self._was_ready = self._was_ready or becomes_ready
            self._status = status

    def _send(self, text: str) -> bool:
        """Send a notice, and return whether the manager has taken it. The next check sends a lost
        one again."""
        if self._socket is None:
            return False
        try:
            self._socket.sendto(text.encode(), self._address)
        except BlockingIOError:
            return False
        except OSError as error:
            if not self._has_failed:
                self._log("warning", "service.notice_failed", reason=str(error))
            self._has_failed = True
            return False
        self._has_failed = False
        return True


def watchdog_s(environment: Mapping[str, str]) -> float:
    """The time within which the service manager expects a sign of life of this process; 0 for none."""
    text = environment.get(WATCHDOG_VARIABLE, "")
    pid = environment.get(WATCHDOG_PID_VARIABLE, "")
    if not text.isascii() or not text.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(text) / 1_000_000
