"""Does a cluster take writes? Ask every living broker whether it sees all the others.

A broker lists another in Metadata once the controller has unfenced it and the news has been replayed;
when all list all, there is an active controller, topics can be made and every client finds its
way. Each names the controller as well: librdkafka looks once for one that is not known, and then waits
for a change. Polls, because nothing else tells from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.client.network.channels import ChannelError, Channels
from barnabas.ports import Ports, Wakeup
from barnabas.security.client_security import OPEN, ClientSecurity
from barnabas.types import Endpoint
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.schema import Message

POLL_MS = 20.0
TIMEOUT_MS = 1000.0


class Readiness:
    """Calls `on_ready` once, when every endpoint of `expected` lists all of them."""

    def __init__(
        self,
        ports: Ports,
        expected: Callable[[], list[Endpoint]],
        on_ready: Callable[[], None],
        security: ClientSecurity = OPEN,
    ) -> None:
        self._ports = ports
        self._channels = Channels(ports, "barnabas-up", security=security)
        self._expected = expected
        self._on_ready = on_ready
        self._done = False
        self._wakeup: Wakeup | None = None
        self._round = 0

    def begin(self) -> None:
        """Start to ask; also again after the expectation changed."""
        self._ask()

    def close(self) -> None:
        self._done = True
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._channels.close()

    def _ask(self) -> None:
        if self._done:
            return
        self._round += 1
        waiting = set(self._expected())
        wanted = sorted((endpoint.host, endpoint.port) for endpoint in waiting)
        if not waiting:
            self._ask_later()
        asked = self._round
        for endpoint in sorted(waiting):
            self._channels.send(
                endpoint,
                MetadataRequest(topics=[], allow_auto_topic_creation=False),
                partial(self._on_answer, asked, endpoint, waiting, wanted),
                timeout_ms=TIMEOUT_MS,
            )

    def _on_answer(
        self,
        asked: int,
        endpoint: Endpoint,
        waiting: set[Endpoint],
        wanted: list[tuple[str, int]],
        answer: Message | ChannelError,
    ) -> None:
        if self._done or asked != self._round:
            return
        if not isinstance(answer, MetadataResponse) or not is_whole(answer, wanted):
            self._round += 1  # the other answers of this round no longer matter
            self._ask_later()
            return
        waiting.discard(endpoint)
        if not waiting:
            self.close()
            self._on_ready()

    def _ask_later(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        at = self._ports.clock.now_ms() + POLL_MS
        self._wakeup = self._ports.wakeups.call_at(at, self._ask)


def is_whole(answer: MetadataResponse, wanted: list[tuple[str, int]]) -> bool:
    """Whether the brokers at `wanted`, (host, port) of each, are those listed, and a controller is named."""
    listed = sorted((broker.host, broker.port) for broker in answer.brokers)
    return listed == wanted and answer.controller_id >= 0
