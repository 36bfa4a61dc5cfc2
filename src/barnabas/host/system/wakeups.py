"""A descriptor that one thread makes readable so that another's wait ends."""

from __future__ import annotations

import os
import sys
from typing import Protocol

from barnabas.host.system import IS_LINUX

_READ_MAX = 4096


class ThreadWakeup(Protocol):
    fd: int

    def wake(self) -> None:
        """Make `fd` readable. Safe in any thread and in a signal handler."""

    def drain(self) -> None:
        """Make `fd` unreadable until the next `wake`."""

    def close(self) -> None: ...


class PipeWakeup:
    """A pipe with one byte for each call of `wake` since `drain`, until it is full."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)

    def wake(self) -> None:
        try:
            os.write(self._writer, b"\0")
        except BlockingIOError:
            return  # full, so it is readable

    def drain(self) -> None:
        try:
            while len(os.read(self.fd, _READ_MAX)) == _READ_MAX:
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._writer)


if sys.platform == "linux":

    class EventWakeup:
        """An eventfd: one descriptor and eight bytes, however often it is woken."""

        def __init__(self) -> None:
            self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

        def wake(self) -> None:
            os.eventfd_write(self.fd, 1)

        def drain(self) -> None:
            os.eventfd_read(self.fd)

        def close(self) -> None:
            os.close(self.fd)


def new_wakeup() -> ThreadWakeup:
    if sys.platform == "linux" and IS_LINUX:
        return EventWakeup()
    return PipeWakeup()
