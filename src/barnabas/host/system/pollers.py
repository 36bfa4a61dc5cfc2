"""Waiting for many descriptors at once: epoll, kqueue or poll, whichever the system has first.

``BARNABAS_POLLER`` names another one of them. All of them report descriptors with the masks of poll(2), and
report the same descriptor once in each answer. An epoll object is used as it is, without a layer above it.
"""

from __future__ import annotations

import math
import os
import select
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.host.system import IS_PORTABLE

IN, OUT, ERR, HUP, RDHUP = 0x001, 0x004, 0x008, 0x010, 0x2000
"""The masks of poll(2). `RDHUP` is reported on Linux only; elsewhere a closed peer is `IN`."""
READABLE = IN | HUP | ERR | RDHUP
WRITABLE = OUT | HUP | ERR
_EVENTS_MAX = 4096
"""Events that kqueue reports at once."""


class Poller(Protocol):
    def register(self, fd: int, mask: int, /) -> object:
        """Report `fd` when it is ready for `mask`."""

    def modify(self, fd: int, mask: int, /) -> object:
        """Wait for another mask of a registered descriptor."""

    def unregister(self, fd: int, /) -> object:
        """Report `fd` no more. It must still be open."""

    def poll(self, timeout_s: float, /) -> list[tuple[int, int]]:
        """Descriptors that are ready, with their masks. Waits at most `timeout_s`; -1 is without limit."""

    def close(self) -> None: ...


class PollPoller:
    """poll(2): each wait looks at all descriptors, so its cost grows with their number."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register, self.modify, self.unregister = (
            self._poll.register,
            self._poll.modify,
            self._poll.unregister,
        )

    def poll(self, timeout_s: float, /) -> list[tuple[int, int]]:
        return self._poll.poll(None if timeout_s < 0 else math.ceil(timeout_s * 1000))

    def close(self) -> None: ...


if sys.platform != "linux":

    class KqueuePoller:
        """kqueue(2), which knows reading and writing as two filters of a descriptor."""

        def __init__(self) -> None:
            self._kqueue = select.kqueue()
            self._masks: dict[int, int] = {}

        def register(self, fd: int, mask: int, /) -> None:
            self._change(fd, mask)

        def modify(self, fd: int, mask: int, /) -> None:
            self._change(fd, mask)

        def unregister(self, fd: int, /) -> None:
            self._change(fd, 0)

        def poll(self, timeout_s: float, /) -> list[tuple[int, int]]:
            masks: dict[int, int] = {}
            for event in self._kqueue.control(
                None, _EVENTS_MAX, None if timeout_s < 0 else timeout_s
            ):
                bit = IN if event.filter == select.KQ_FILTER_READ else OUT
                if event.flags & select.KQ_EV_EOF:
                    bit |= HUP
                masks[event.ident] = masks.get(event.ident, 0) | bit
            return list(masks.items())

        def close(self) -> None:
            self._kqueue.close()

        def _change(self, fd: int, mask: int) -> None:
            old = self._masks.get(fd, 0)
            changes = [
                select.kevent(fd, kind, select.KQ_EV_ADD if mask & bit else select.KQ_EV_DELETE)
                for bit, kind in ((IN, select.KQ_FILTER_READ), (OUT, select.KQ_FILTER_WRITE))
                if (mask ^ old) & bit
            ]
            if changes:
                self._kqueue.control(changes, 0, 0)
            if mask:
                self._masks[fd] = mask
            else:
                self._masks.pop(fd, None)


class PollerUnknownError(ValueError):
    """``BARNABAS_POLLER`` names a poller that this system does not have."""


def pollers() -> dict[str, Callable[[], Poller]]:
    """The pollers of this system by name, the best first."""
    found: dict[str, Callable[[], Poller]] = {}
    if hasattr(select, "epoll"):
        found["epoll"] = select.epoll
    if sys.platform != "linux":
        found["kqueue"] = KqueuePoller
    found["poll"] = PollPoller
    return found


def new_poller() -> Poller:
    """A poller of the kind that ``BARNABAS_POLLER`` names, else the best. Raises `PollerUnknownError`."""
    known = pollers()
    wanted = os.environ.get("BARNABAS_POLLER") or ("poll" if IS_PORTABLE else next(iter(known)))
    if wanted not in known:
        raise PollerUnknownError(
            f"BARNABAS_POLLER is {wanted!r}, and this system has {_either(list(known))}"
        )
    return known[wanted]()


def _either(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
