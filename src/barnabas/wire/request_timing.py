"""When a request was received, handled, answered and sent, for a listener whose requests are observed.

A listener without an observer keeps no times. The times are those of the node's clock, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas.wire.request import Parked, Working
from barnabas.wire.schema import Message


class RequestTiming:
    """The times of one request."""

    __slots__ = (
        "_observer", "answered_ms", "api_key", "arrived_ms", "began_ms", "handled_ms",
        "is_of_follower", "throttle_ms",
    )  # fmt: skip

    def __init__(
        self, observer: RequestObserver, api_key: int, arrived_ms: float, began_ms: float
    ) -> None:
        """`began_ms`: the connection took the request up, behind the requests before it."""
        self._observer = observer
        self.api_key = api_key
        self.arrived_ms = arrived_ms
        self.began_ms = began_ms
        self.handled_ms = self.answered_ms = began_ms
        self.throttle_ms = 0.0
        self.is_of_follower = False
        """An observer sets this for a Fetch of a replica."""

    def handled(self, result: Message | Parked | None, now_ms: float) -> None:
        """The handler has returned. What is processed in parts is handled when it is answered."""
        self.handled_ms = float("inf") if isinstance(result, Working) else now_ms

    def answered(self, request: Message, response: Message | None, now_ms: float) -> None:
        """The response is there, and is encoded (None: the protocol has none)."""
        self.answered_ms = now_ms
        self.handled_ms = min(self.handled_ms, now_ms)
        self._observer.answered(self, request, response)

    @staticmethod
    def sent(timings: Sequence[RequestTiming], now_ms: float) -> None:
        """The responses of these requests of one listener were given to the network."""
        timings[0]._observer.sent(timings, now_ms)


class RequestObserver(Protocol):
    """Counts the requests of a listener."""

    def answered(self, timing: RequestTiming, request: Message, response: Message | None) -> None:
        """A request has its response (None: the protocol has none)."""

    def sent(self, timings: Sequence[RequestTiming], now_ms: float) -> None:
        """The responses of these requests were given to the network."""
