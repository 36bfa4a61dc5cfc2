"""The requests that wait for the machine's answer, by ticket."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.core.messages import Response
from barnabas.raft.runtime.response_reader import ResponseReader

Waiter = Callable[[Response], None]


class RequestTickets:
    """Each request has a ticket of its own; its waiter gets one answer, with the bytes that it names."""

    def __init__(self, reader: ResponseReader) -> None:
        self._reader = reader
        self._waiting: dict[int, Waiter] = {}
        self.next = 1
        """The ticket of the next request."""

    def take(self, waiter: Waiter) -> int:
        """Let `waiter` wait with the next ticket."""
        ticket, self.next = self.next, self.next + 1
        self._waiting[ticket] = waiter
        return ticket

    def park(self, ticket: int, waiter: Waiter) -> None:
        """Let `waiter` wait in the place of the one that has this ticket."""
        self._waiting[ticket] = waiter

    def answer(self, ticket: int, response: Response) -> None:
        """Raises ``OSError``."""
        waiter = self._waiting.pop(ticket, None)
        if waiter is not None:
            waiter(self._reader.resolved(response))
