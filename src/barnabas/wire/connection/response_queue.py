"""The responses of one connection, in the order of their requests.

A response that is ready before an earlier one is *kept* until that one is ready. Responses whose turn has
come are *queued*, and are sent together. The sizes of both bound what a peer can make this node hold.
"""

from __future__ import annotations

from collections import deque

from barnabas.types import Buffer
from barnabas.wire.connection.unread_responses import UnreadResponses
from barnabas.wire.dispatch import ApiEntry
from barnabas.wire.metering import Charge
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.request_timing import RequestTiming
from barnabas.wire.schema import Message


class RequestTurn:
    """One request's place in the order of responses."""

    __slots__ = ("charge", "ctx", "done", "entry", "parked", "parts", "request", "timing")

    def __init__(
        self,
        entry: ApiEntry,
        request: Message,
        ctx: RequestContext,
        charge: Charge | None = None,
        timing: RequestTiming | None = None,
    ) -> None:
        self.entry = entry
        self.request = request
        self.ctx = ctx
        self.charge = charge
        self.timing = timing
        self.parked: Parked | None = None
        """The request, while it has no response."""
        self.parts: list[Buffer] = []
        """The response, when it is `done`. A response that the protocol does not have is empty."""
        self.done = False

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


class ResponseQueue:
    """The responses that are not with the network yet."""

    __slots__ = (
        "burst_bytes",
        "is_corked",
        "kept_bytes",
        "queued",
        "queued_bytes",
        "timings",
        "turns",
        "unread",
    )

    def __init__(self, unread: UnreadResponses) -> None:
        self.unread = unread
        self.turns: deque[RequestTurn] = deque()
        """All and only requests that are not answered, or whose response is kept."""
        self.queued: list[Buffer] = []
        self.queued_bytes = 0
        self.timings: list[RequestTiming] = []
        """The times of the queued responses, where they are observed."""
        self.kept_bytes = 0
        """The size of all kept responses. `unread` counts them as well."""
        self.burst_bytes = 0
        """The size of what was sent since the connection's turn of the loop began."""
        self.is_corked = False
        """Whether requests that came together are being served. Their responses are sent together."""

    def put(self, parts: list[Buffer], timing: RequestTiming | None = None) -> None:
        """Queue a response that no earlier request delays."""
        if timing is not None:
            self.timings.append(timing)
        self.queued += parts
        for part in parts:
            self.queued_bytes += len(part)

    def settle(self, turn: RequestTurn, parts: list[Buffer]) -> None:
        """`turn` has its response: queue all responses that no earlier request delays."""
        assert not turn.done, f"{turn.ctx} is answered twice"
        turn.done = True
        turns = self.turns
        if turns[0] is not turn:
            turn.parts = parts
            self._keep(turn.size)
            return
        turns.popleft()
        self.put(parts, turn.timing)
        while turns and turns[0].done:
            first = turns.popleft()
            self._keep(-first.size)
            self.put(first.parts, first.timing)

    def abandon(self) -> None:
        """The connection has ended: no client waits for the responses."""
        for turn in self.turns:
            if turn.parked is not None:
                turn.parked.abandon()
        self.turns.clear()
        self.queued.clear()
        self.timings.clear()
        self.queued_bytes = 0
        self._keep(-self.kept_bytes)

    def _keep(self, size: int) -> None:
        self.kept_bytes += size
        self.unread.kept_bytes += size

    def validate(self) -> None:
        """Raises AssertionError where a field contradicts another."""
        kept = [turn for turn in self.turns if turn.done]
        assert not (self.turns and self.turns[0].done), "the first response is ready and kept"
        assert self.kept_bytes == sum(turn.size for turn in kept), "kept responses are miscounted"
        assert self.queued_bytes == sum(map(len, self.queued)), "queued responses are miscounted"
        assert all(turn.parked is None for turn in kept), "an answered request is still parked"
