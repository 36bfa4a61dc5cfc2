"""Noticing that the leader's process is gone: its connection closes and a new one is refused.

A network that loses packets closes nothing, and a host that vanishes refuses nothing: for those the
fetch time-out remains. Being wrong costs one pre-vote, which a living leader's followers deny.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.transport import Transport
from barnabas.types import Endpoint


class LeaderProbe:
    """Watches one endpoint at a time and reports it gone."""

    def __init__(self, transport: Transport, on_gone: Callable[[Endpoint], None]) -> None:
        self._transport = transport
        self._on_gone = on_gone
        self._endpoint: Endpoint | None = None
        self._unwatch: Callable[[], None] | None = None

    def watch(self, endpoint: Endpoint | None) -> None:
        """Watch `endpoint` instead of what was watched; None: nothing."""
        if endpoint == self._endpoint:
            return
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._endpoint = endpoint
        if endpoint is not None:
            self._unwatch = self._transport.watch(
                endpoint,
                on_closed=lambda: self._probe(endpoint),
                on_refused=lambda: self._gone(endpoint),
            )

    def _probe(self, endpoint: Endpoint) -> None:
        def done(listens: bool) -> None:
            if not listens:
                self._gone(endpoint)

        self._transport.probe(endpoint, done)

    def _gone(self, endpoint: Endpoint) -> None:
        if endpoint == self._endpoint:
            self._on_gone(endpoint)

    def close(self) -> None:
        self.watch(None)
