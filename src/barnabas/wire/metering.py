"""What a listener asks when it answers a request: what the request used, and how long its client waits.

A client that used more than its share receives its answer, with the wait in it, and its connection is not
read before the wait is over (KIP-219). A listener without a meter asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.wire.request import RequestContext
from barnabas.wire.schema import Message


class RequestMeter(Protocol):
    """Charges requests; one for a listener."""

    def record_and_throttle_ms(
        self,
        ctx: RequestContext,
        request: Message,
        response: Message | None,
        request_bytes: int,
        spent_ms: float,
    ) -> float:
        """Charge a request that `response` answers (None: no answer), and put the wait into it; returns the
        wait in milliseconds."""


class Charge:
    """One request between its arrival and its answer."""

    __slots__ = ("_began_ms", "_ctx", "_meter", "_now_ms", "_request", "_size", "_spent_ms")

    def __init__(
        self,
        meter: RequestMeter,
        ctx: RequestContext,
        request: Message,
        size: int,
        now_ms: Callable[[], float],
    ) -> None:
        self._meter = meter
        self._ctx = ctx
        self._request = request
        self._size = size
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._spent_ms = 0.0

    def handled(self) -> None:
        """The handler has returned."""
        self._spent_ms = self._now_ms() - self._began_ms

    def record_and_throttle_ms(self, response: Message | None) -> float:
        return self._meter.record_and_throttle_ms(
            self._ctx, self._request, response, self._size, self._spent_ms
        )
