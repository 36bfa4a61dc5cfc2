"""Requests under way: at most one per endpoint, and a pause after a failure.

Changing state forgets them all; an answer that comes afterwards finds nothing and is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.raft.messages import Request
from barnabas.types import Endpoint


class Pending(NamedTuple):
    node_id: int
    endpoint: Endpoint
    request: Request


class Outbox:
    """Invariant: `_busy` maps each endpoint to the one pending request that goes there."""

    __slots__ = ("_busy", "_next_id", "_paused", "_pending")

    def __init__(self) -> None:
        self._next_id = 1
        self._pending: dict[int, Pending] = {}
        self._busy: dict[Endpoint, int] = {}
        self._paused: dict[Endpoint, float] = {}

    def is_ready(self, endpoint: Endpoint, now_ms: float) -> bool:
        """Whether a request may go there now."""
        return endpoint not in self._busy and self._paused.get(endpoint, 0.0) <= now_ms

    def open(self, node_id: int, endpoint: Endpoint, request: Request) -> int:
        """The id of a request that is about to be sent."""
        request_id = self._next_id
        self._next_id += 1
        self._pending[request_id] = Pending(node_id, endpoint, request)
        self._busy[endpoint] = request_id
        return request_id

    def close(self, request_id: int) -> Pending | None:
        """The request that was answered or failed; None where it is of no interest any more."""
        pending = self._pending.pop(request_id, None)
        if pending is not None and self._busy.get(pending.endpoint) == request_id:
            del self._busy[pending.endpoint]
        return pending

    def pause(self, endpoint: Endpoint, until_ms: float) -> None:
        self._paused[endpoint] = until_ms

    def reset(self) -> None:
        self._pending.clear()
        self._busy.clear()
        self._paused.clear()

    def wakes_at(self, now_ms: float) -> float | None:
        """The earliest end of a pause."""
        for endpoint in [e for e, until in self._paused.items() if until <= now_ms]:
            del self._paused[endpoint]
        return min(self._paused.values(), default=None)

    def __len__(self) -> int:
        return len(self._pending)
