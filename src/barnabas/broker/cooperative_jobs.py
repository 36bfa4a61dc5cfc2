"""Requests about thousands of partitions, handled in parts, a part per turn of the loop.

A step handles some ten partitions: their appends or reads. A job takes as many steps at once as a turn
allows; the rest follows in later turns, and other requests are served in between. Jobs do not wait for
each other: each has a part of every turn.

A job continues after its connection closed: a request that arrived complete takes effect, as with Apache
Kafka. Only the broker's end stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from barnabas.limits import SLICE_MS
from barnabas.ports import Ports

STEPS_PER_TURN_MAX = 8
"""In one turn, however quick they are."""

Failed = Callable[[Exception], None]


class CooperativeJobs:
    """The jobs of one broker."""

    def __init__(self, ports: Ports, steps_max: int = STEPS_PER_TURN_MAX) -> None:
        self._ports = ports
        self._steps_max = steps_max
        self._closed = False
        self.under_way = 0

    def run(self, steps: Iterator[object], failed: Failed) -> None:
        """Take `steps`, the first of them now. `failed` gets what a step raises; no step follows it."""
        self.under_way += 1
        self._take_steps(steps, failed)

    def close(self) -> None:
        """Nothing is done any more."""
        self._closed = True

    def _take_steps(self, steps: Iterator[object], failed: Failed) -> None:
        if self._closed:
            return
        now_ms = self._ports.clock.now_ms
        until_ms = now_ms() + SLICE_MS
        left = self._steps_max
        try:
            for _ in steps:
                left -= 1
                if not left or now_ms() >= until_ms:
                    self._ports.wakeups.call_soon(partial(self._take_steps, steps, failed))
                    return
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for a response
            self.under_way -= 1
            failed(error)
        else:
            self.under_way -= 1
