"""The interface by which a listener meters requests for quotas.

A client that exceeds its quota receives its answer with the throttle time in it, and its connection is not
read until that time has passed (KIP-219). A listener without a meter does not throttle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.wire.request import RequestContext
from barnabas.wire.schema import Message


class RequestMeter(Protocol):
    """Records what requests use, and decides on throttle times. A listener has at most one."""

    def record_and_throttle_ms(
        self,
        ctx: RequestContext,
        request: Message,
        response: Message | None,
        request_bytes: int,
        spent_ms: float,
    ) -> float:
        """Record a request, and set the throttle time in `response` (None: the request has no response).
        Returns the throttle time in ms. `spent_ms` is the time that decoding and the handler took."""

    def record_encoding(self, ctx: RequestContext, request: Message, spent_ms: float) -> None:
        """Record how long encoding took of an answer whose throttle time is in it already."""


class Charge:
    """The metering of one request, from its arrival to its answer."""

    __slots__ = ("_began_ms", "_ctx", "_meter", "_now_ms", "_request", "_size", "_spent_ms")

    def __init__(
        self,
        meter: RequestMeter,
        ctx: RequestContext,
        request: Message,
        size: int,
        now_ms: Callable[[], float],
        began_ms: float,
    ) -> None:
        """`began_ms`: when the decoding of the request began."""
        self._meter = meter
        self._ctx = ctx
        self._request = request
        self._size = size
        self._now_ms = now_ms
        self._began_ms = began_ms
        self._spent_ms = 0.0

    def handled(self) -> None:
        """The handler has returned: note the time that it took."""
        self._spent_ms = self._now_ms() - self._began_ms

    def record_and_throttle_ms(self, response: Message | None) -> float:
        """Record the request; returns the throttle time in ms."""
        wait_ms = self._meter.record_and_throttle_ms(
            self._ctx, self._request, response, self._size, self._spent_ms
        )
        self._began_ms = self._now_ms()
        return wait_ms

    def encoded(self) -> None:
        """The answer has been encoded since it was recorded: note the time that it took."""
        self._meter.record_encoding(self._ctx, self._request, self._now_ms() - self._began_ms)
