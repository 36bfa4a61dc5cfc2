"""Requests about thousands of partitions, handled in parts, a part per turn of the loop.

A step appends to, or reads from, some ten partitions. A job runs as many steps as one turn allows and
continues in later turns; other requests are served in between. Jobs do not wait for each other: each gets a
part of every turn.

A job continues after its connection has closed: as in Apache Kafka, a request that arrived complete takes
effect. Only the broker's shutdown stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from barnabas.limits import SLICE_MS
from barnabas.ports import Ports
from barnabas.wire.request import Working

STEPS_PER_TURN_MAX = 8
"""Steps of one job in one turn of the loop, even if they take no time."""

OnError = Callable[[Exception], None]


class CooperativeJobs:
    """The jobs of one broker."""

    def __init__(self, ports: Ports, steps_max: int = STEPS_PER_TURN_MAX) -> None:
        self._ports = ports
        self._steps_max = steps_max
        self._closed = False
        self.under_way = 0

    def run(
        self, steps: Iterator[object], on_error: OnError, request: Working | None = None
    ) -> None:
        """Iterate over `steps`, beginning now. If a step raises, the job ends and `on_error` gets the
        exception. The time of the steps counts as that of `request`."""
        self.under_way += 1
        self._take_steps(steps, on_error, request or Working())

    def close(self) -> None:
        """Stop all jobs: no further step runs."""
        self._closed = True

    def _take_steps(self, steps: Iterator[object], on_error: OnError, request: Working) -> None:
        if self._closed:
            return
        now_ms = self._ports.clock.now_ms
        began_ms = now_ms()
        request.begin_turn(began_ms)
        until_ms = began_ms + SLICE_MS
        left = self._steps_max
        try:
            for _ in steps:
                left -= 1
                if not left or now_ms() >= until_ms:
                    again = partial(self._take_steps, steps, on_error, request)
                    self._ports.wakeups.call_soon(again)
                    return
        except Exception as error:  # noqa: BLE001 - a client waits for a response, whatever the error
            self.under_way -= 1
            on_error(error)
        else:
            self.under_way -= 1
        finally:
            request.end_turn(now_ms())  # what it waits for from now on is no work
