"""Requests under way: at most one fetch and one other per endpoint, and a pause after a failure.

Changing state forgets them all; an answer that comes afterwards finds nothing and is dropped.

Source: Kafka's ``RequestManager``.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.raft.core.messages import FetchRequest, Request, SnapshotRequest
from barnabas.types import Endpoint

Lane: TypeAlias = tuple[Endpoint, bool]
_FETCHES = frozenset({FetchRequest, SnapshotRequest})


class Pending(NamedTuple):
    node_id: int
    endpoint: Endpoint
    request: Request


class InflightRequests:
    """Invariant: `_busy` maps each lane (endpoint, whether fetching) to its one pending request."""

    __slots__ = ("_busy", "_next_id", "_paused", "_pending")

    def __init__(self) -> None:
        self._next_id = 1
        self._pending: dict[int, Pending] = {}
        self._busy: dict[Lane, int] = {}
        self._paused: dict[Lane, float] = {}

    def open(self, node_id: int, endpoint: Endpoint, request: Request, now_ms: float) -> int | None:
        """The id of a request that is about to be sent; None where it may not go there now."""
        lane = endpoint, type(request) in _FETCHES
        if lane in self._busy or (self._paused and self._paused.get(lane, 0.0) > now_ms):
            return None
        request_id = self._next_id
        self._next_id += 1
        self._pending[request_id] = Pending(node_id, endpoint, request)
        self._busy[lane] = request_id
        return request_id

    def close(self, request_id: int) -> Pending | None:
        """The request that was answered or failed; None where it is of no interest any more."""
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            lane = pending.endpoint, type(pending.request) in _FETCHES
            if self._busy.get(lane) == request_id:
                del self._busy[lane]
        return pending

    def pause(self, pending: Pending, until_ms: float) -> None:
        """Send nothing of its kind there before `until_ms`."""
        self._paused[pending.endpoint, type(pending.request) in _FETCHES] = until_ms

    def reset(self) -> None:
        self._pending.clear()
        self._busy.clear()
        self._paused.clear()

    @property
    def pauses(self) -> bool:
        """Whether a pause holds, or one was not asked for since it ended."""
        return bool(self._paused)

    def wakes_at(self, now_ms: float) -> float | None:
        """The earliest end of a pause."""
        if not self._paused:
            return None
        for lane in [lane for lane, until in self._paused.items() if until <= now_ms]:
            del self._paused[lane]
        return min(self._paused.values(), default=None)

    def __len__(self) -> int:
        return len(self._pending)
