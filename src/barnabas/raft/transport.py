"""How a replica reaches its peers: the part of :class:`barnabas.client.network.channels.Channels` it uses.

`on_done` gets the response or an exception, later, exactly once. Requests of one (target, purpose)
go out in the order given. The news that a peer's process is gone comes through `watch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.types import Endpoint
from barnabas.wire.schema import Message

ASKING, FETCHING = "raft", "raft-fetch"
PURPOSES = (ASKING, FETCHING)
"""The purposes of a replica's connections to its peers."""


class Transport(Protocol):
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

    def watch(
        self,
        target: Endpoint,
        *,
        on_closed: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> Callable[[], None]: ...

    def probe(self, target: Endpoint, on_done: Callable[[bool], None]) -> None: ...

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None: ...
