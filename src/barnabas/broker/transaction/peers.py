"""Requests that a broker sends to brokers by id, to itself among them.

A request to another broker goes to its inter-broker listener. A request to this broker is served by
the same handler without the network. `on_done` is called exactly once, in a later turn, with the
response or a ``ChannelError``. Callers retry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.broker.controller_client.controller_channel import Sender
from barnabas.client.network.connection import ChannelError
from barnabas.ports import Ports, raise_soon
from barnabas.types import Endpoint
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

OnResponse = Callable[[Any], None]
"""Gets the response message, or a ``ChannelError``."""


class Peers:
    """Sends requests of one broker to brokers of the cluster."""

    __slots__ = ("_channels", "_endpoint", "_ports", "_serve", "_timeout_ms", "node_id")

    def __init__(
        self,
        ports: Ports,
        channels: Sender,
        node_id: int,
        endpoint: Callable[[int], Endpoint | None],
        serve: Callable[[Message], Message | Parked | None],
        timeout_ms: float,
    ) -> None:
        """`endpoint` gives another broker's inter-broker listener, None if it is not known; `serve`
        answers a request to this broker."""
        self.node_id = node_id
        self._ports = ports
        self._channels = channels
        self._endpoint = endpoint
        self._serve = serve
        self._timeout_ms = timeout_ms

    def send(self, broker: int, request: Message, on_done: OnResponse, *, purpose: str) -> None:
        """Send `request` to `broker`."""
        if broker == self.node_id:
            self._ports.wakeups.call_soon(partial(self._serve_here, request, on_done))
            return
        at = self._endpoint(broker)
        if at is None:
            error = ChannelError("refused", f"broker {broker} is not known")
            self._ports.wakeups.call_soon(partial(on_done, error))
            return
        self._channels.send(at, request, on_done, timeout_ms=self._timeout_ms, purpose=purpose)

    def _serve_here(self, request: Message, on_done: OnResponse) -> None:
        answer: Any
        try:
            answer = self._serve(request)
        except Exception as fault:  # noqa: BLE001 - of a handler; who asked is answered all the same
            raise_soon(self._ports.wakeups, fault)
            answer = ChannelError("closed", repr(fault))
        if isinstance(answer, Parked):
            answer.attach(on_done)
        else:
            on_done(answer)

    def __repr__(self) -> str:
        return f"Peers(of {self.node_id})"
