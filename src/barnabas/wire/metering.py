"""The interface by which a listener meters requests for quotas.

A client that exceeds its quota receives its answer with the throttle time in it, and its connection is not
read until that time has passed (KIP-219). A listener without a meter does not throttle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.wire.request import Parked, RequestContext, Working
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

    def record_rest(self, ctx: RequestContext, request: Message, spent_ms: float) -> None:
        """Record the time spent on a request since its throttle time was set: on encoding and sending."""


class Charge:
    """The metering of one request, from its arrival to its answer."""

    __slots__ = (
        "_began_ms", "_ctx", "_meter", "_now_ms", "_request", "_size", "_spent_ms", "_working",
    )  # fmt: skip

    def __init__(
        self,
        meter: RequestMeter,
        ctx: RequestContext,
        request: Message,
        size: int,
        now_ms: Callable[[], float],
        began_ms: float,
    ) -> None:
        """`began_ms`: when the node began to split off and decode the request."""
        self._meter = meter
        self._ctx = ctx
        self._request = request
        self._size = size
        self._now_ms = now_ms
        self._began_ms = began_ms
        self._spent_ms = 0.0
        self._working: Working | None = None

    def handled(self, result: Message | Parked | None) -> None:
        """The handler has returned `result`: note the time that it took."""
        now_ms = self._now_ms()
        self._spent_ms = now_ms - self._began_ms
        if isinstance(result, Working):
            result.take_worked_ms(now_ms)  # its first turn is a part of that time
            self._working = result

    def record_and_throttle_ms(self, response: Message | None) -> float:
        """Record the request; returns the throttle time in ms."""
        if self._working is not None:
            self._spent_ms += self._working.take_worked_ms(self._now_ms())
        wait_ms = self._meter.record_and_throttle_ms(
            self._ctx, self._request, response, self._size, self._spent_ms
        )
        self._began_ms = self._now_ms()
        return wait_ms

    def record_rest(self) -> float:
        """Record the time since the last record, for encoding or sending. Returns the present instant."""
        now_ms = self._now_ms()
        self._meter.record_rest(self._ctx, self._request, now_ms - self._began_ms)
        self._began_ms = now_ms
        return now_ms


class Spent:
    """When the node works for one connection, so that its requests are charged with all of it: reading,
    decoding, the handler, encoding, sending, and the end of a throttle time."""

    __slots__ = ("_callback_began_ms", "_charge", "_charged_until_ms", "_now_ms", "_owed_ms")

    def __init__(self, now_ms: Callable[[], float], callback_began_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._callback_began_ms = callback_began_ms
        self._charged_until_ms = float("-inf")
        self._owed_ms = 0.0
        """Time that the next request is charged with."""
        self._charge: Charge | None = None
        """The charge of the last answer that is encoded and not sent yet."""

    def begin(self) -> float:
        """When the work for the request that is decoded next began."""
        owed_ms, self._owed_ms = self._owed_ms, 0.0
        return max(self._callback_began_ms(), self._charged_until_ms) - owed_ms

    def on_encoded(self, charge: Charge) -> None:
        self._charged_until_ms = charge.record_rest()
        self._charge = charge

    def on_sent(self) -> None:
        charge, self._charge = self._charge, None
        if charge is not None:
            self._charged_until_ms = charge.record_rest()

    def on_unmuted(self) -> None:
        self._owed_ms += self._now_ms() - max(self._callback_began_ms(), self._charged_until_ms)
