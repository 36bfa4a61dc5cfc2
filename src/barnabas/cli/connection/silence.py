"""Ends a command's loop once the other side has been silent for too long, however much it said before."""

from __future__ import annotations

import time

from barnabas.host.loop import Loop


class Silence:
    """Stops `loop` where `end` was not called for `within_s`. The whole work may take longer."""

    def __init__(self, loop: Loop, within_s: float) -> None:
        self._loop = loop
        self._within_s = within_s
        self._began_s = time.monotonic()
        loop.call_later(within_s, self._check)

    def end(self) -> None:
        """The other side said something."""
        self._began_s = time.monotonic()

    def _check(self) -> None:
        left_s = self._began_s + self._within_s - time.monotonic()
        if left_s > 0:
            self._loop.call_later(left_s, self._check)
        else:
            self._loop.stop()
