"""A broker's channel to the active controller: it retries each request until it is answered or out
of time.

The active controller may change at any moment: a request that reaches a controller which is not active,
or none at all, waits for the next one and is sent again. `on_done` gets the response, or a `KafkaError`
once the deadline has passed; it is called exactly once and never from within `send`.

Requests of one `purpose` to one controller share a connection. A request that is not answered in
time ends its connection, and with it the others on it. The purposes `FORWARD` and `AS_BROKER` are
exceptions: their requests belong to many clients, each with a timeout of its own.

Source: Kafka's ``NodeToControllerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from barnabas.client.network.connection import ChannelError
from barnabas.ports import Ports, Wakeup, call_all
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

CONTROLLER_RETRY_MS = 50.0
FORWARD = "forward"
"""The purpose of clients' requests that this broker forwards in envelopes."""
AS_BROKER = "forward as broker"
"""The purpose of clients' requests that go in the broker's own name, to a controller that closes
connections with envelopes."""
OnAnswer = Callable[[Any], None]
"""Gets the response message, or a `KafkaError`."""


class Sender(Protocol):
    """The part of :class:`barnabas.client.network.channels.Channels` that the broker uses."""

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[Any], None],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None: ...

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None: ...


class ProbingSender(Sender, Protocol):
    """A sender that can ask whether anyone listens, without a request."""

    def probe(self, target: Endpoint, on_done: Callable[[bool], None]) -> None: ...


class _Call:
    __slots__ = (
        "closes_left", "deadline_ms", "done", "late", "on_done", "purpose", "request", "version",
    )  # fmt: skip

    def __init__(
        self,
        request: Message,
        on_done: OnAnswer,
        deadline_ms: float,
        purpose: str,
        version: int | None,
        closes_left: int | None,
    ) -> None:
        self.closes_left = closes_left
        """How often a controller may still close the connection before the request fails; None:
        until the deadline."""
        self.request = request
        self.on_done = on_done
        self.deadline_ms = deadline_ms
        self.purpose = purpose
        self.version = version
        self.late: Wakeup | None = None
        """The wake-up that gives the request up, if its connection may have longer."""
        self.done = False

    def answer(self, response: object) -> None:
        if not self.done:
            self.done = True
            if self.late is not None:
                self.late.cancel()
            self.on_done(response)

    def give_up(self) -> None:
        why = "the active controller did not answer in time"
        self.answer(KafkaError(ErrorCode.REQUEST_TIMED_OUT, why))


class ControllerChannel:
    """Requests to the broker's currently known active controller."""

    def __init__(
        self,
        ports: Ports,
        channels: Sender,
        request_timeout_ms: float,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`look` asks for a call of `on_controller_change` while requests wait and no address is
        known: the quorum may know its leader before the leader's address."""
        self._ports = ports
        self._look = look
        self._channels = channels
        self._request_timeout_ms = request_timeout_ms
        self._waiting: list[_Call] = []
        self._wakeup: Wakeup | None = None
        self._closed = False
        self._purposes: dict[str, None] = {}
        self._former: Endpoint | None = None
        """The address of the last known controller."""
        self.controller_id = -1
        self.endpoint: Endpoint | None = None
        self.unreachable_since_ms: float | None = ports.clock.now_ms()
        """The time since which no controller has answered; None while one answers."""

    def on_controller_change(self, controller_id: int, endpoint: Endpoint | None) -> None:
        """`endpoint` None: no controller is known to be active."""
        if endpoint == self.endpoint and controller_id == self.controller_id:
            return
        self.controller_id = controller_id
        self.endpoint = endpoint
        if endpoint is None:
            self._note_unreachable()
            return
        former, self._former = self._former, endpoint
        if former not in (None, endpoint):
            # Requests under way there would wait for a controller that is no longer active.
            end = partial(self._channels.disconnect, former)
            call_all([*(partial(end, purpose) for purpose in self._purposes), self._retry])
            return
        self._retry()

    def send(
        self,
        request: Message,
        on_done: OnAnswer,
        *,
        timeout_ms: float | None = None,
        purpose: str = "controller",
        version: int | None = None,
        closes_max: int | None = None,
    ) -> None:
        """`closes_max`: how often one controller may close the connection before the answer is
        UNSUPPORTED_VERSION, for a request that it may not take."""
        timeout = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._ports.clock.now_ms() + timeout
        call = _Call(request, on_done, deadline, purpose, version, closes_max)
        if purpose in (FORWARD, AS_BROKER):
            call.late = self._ports.wakeups.call_at(deadline, call.give_up)
        self._send(call)

    def _send(self, call: _Call) -> None:
        now_ms = self._ports.clock.now_ms()
        if self.endpoint is None or self._closed:
            self._wait(call)
            return
        left = call.deadline_ms - now_ms
        if call.late is not None:
            left = max(left, self._request_timeout_ms)
        target = self.endpoint
        self._purposes[call.purpose] = None
        self._channels.send(
            target,
            call.request,
            partial(self._on_response, call, target),
            timeout_ms=max(left, 1.0),
            purpose=call.purpose,
            version=call.version,
        )

    def _on_response(self, call: _Call, target: Endpoint, response: object) -> None:
        if isinstance(response, ChannelError):
            if response.kind == "unsupported":
                call.answer(KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(response)))
                return
            if target == self.endpoint:
                if response.kind == "closed" and call.closes_left is not None:
                    call.closes_left -= 1
                    if call.closes_left <= 0:
                        call.answer(KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(response)))
                        return
                self._note_unreachable()
            self._wait(call)
        elif getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            self._wait(call)
        else:
            self.unreachable_since_ms = None
            call.answer(response)

    def _note_unreachable(self) -> None:
        if self.unreachable_since_ms is None:
            self.unreachable_since_ms = self._ports.clock.now_ms()

    # -- waiting for a controller ----------------------------------------------------------------

    def _wait(self, call: _Call) -> None:
        self._waiting.append(call)
        if self._wakeup is None:
            self._wakeup = self._ports.wakeups.call_at(
                self._ports.clock.now_ms() + CONTROLLER_RETRY_MS, self._on_wakeup
            )

    def _on_wakeup(self) -> None:
        self._wakeup = None
        if self.endpoint is None and not self._closed:
            self._look()
        self._retry()

    def _retry(self) -> None:
        now_ms = self._ports.clock.now_ms()
        waiting, self._waiting = self._waiting, []
        call_all(
            call.give_up
            if self._closed or call.deadline_ms <= now_ms
            else partial(self._send, call)
            for call in waiting
        )

    def close(self) -> None:
        """Give up all requests."""
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        self._retry()

    def __repr__(self) -> str:
        return f"ControllerChannel({self.controller_id} at {self.endpoint})"
