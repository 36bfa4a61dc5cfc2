"""One fetch under way: its state, its conditions, and its answer.

A fetch that the turn in which it arrived cannot answer is kept in `FetchSession.delayed_fetch`. Its
`FetchState` says what it waits for. A fetch that is answered in its turn stays in the first state.
`FETCH_MOVES` has the moves, and `DelayedFetch.enter` asserts them. A read pass that ends in its
turn has no state of its own.

Source: Kafka's ``DelayedFetch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from barnabas.broker.fetch.fetch_read import (
    FOLLOWERS_SERVE_SINCE,
    READ_COMMITTED,
    ReadPass,
    Session,
)
from barnabas.limits import FetchBounds
from barnabas.replication.sessions import INITIAL_EPOCH
from barnabas.security.authorization.topic_reader import TopicReader
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.request import Parked, Working
from barnabas.wire.schema import Message


class FetchState(Enum):
    """The state of a fetch."""

    APPLYING = "applying"
    """The request is being applied to its session."""
    READING = "reading"
    """Its answer names every partition. They are being read, over several turns of the loop if they
    are many."""
    READING_COLD = "reading cold data"
    """A background job brings bytes into memory."""
    DELAYED = "delayed"
    """It waits until one of its partitions moves or its deadline passes."""
    ENDED = "ended"
    """It is answered or cancelled."""

    __hash__ = object.__hash__  # by identity: faster than Enum's own hash on the path of a fetch


FETCH_MOVES: Mapping[FetchState, Mapping[FetchState, str]] = MappingProxyType(
    {
        FetchState.APPLYING: {
            FetchState.READING: "the session has all that a full request says",
            FetchState.READING_COLD: "bytes are not in memory",
            FetchState.DELAYED: "there is less than min.bytes",
            FetchState.ENDED: "it is answered, its session began again or was evicted, or a fault",
        },
        FetchState.READING: {
            FetchState.READING_COLD: "bytes are not in memory",
            FetchState.DELAYED: "there is less than min.bytes",
            FetchState.ENDED: "it is answered, its session sent another request or was evicted, or a fault",
        },
        FetchState.READING_COLD: {
            FetchState.DELAYED: "the background job ended; a read pass follows",
            FetchState.ENDED: "its session sent another request, or was evicted",
        },
        FetchState.DELAYED: {
            FetchState.READING: "there is enough, or its time is over, and its answer names every partition",
            FetchState.READING_COLD: "bytes are not in memory",
            FetchState.ENDED: "it is answered, its session sent another request or was evicted, or a fault",
        },
        FetchState.ENDED: {},
    }
)


class FetchOwner(Protocol):
    """The service of a fetch (`barnabas.broker.fetch.fetch_service.FetchService`)."""

    bounds: FetchBounds
    response_bytes_max: int
    brokers_died: Callable[[], object]

    def on_deadline(self, fetch: DelayedFetch) -> None: ...


class DelayedFetch:
    """One fetch under way, and its conditions for every read pass."""

    parked: Parked
    """Its answer; set only if its session keeps the fetch."""
    __slots__ = (
        "bucket",
        "cold_reads",
        "committed",
        "deadline_ms",
        "leader_only",
        "listener",
        "max_bytes",
        "min_bytes",
        "parked",
        "rack",
        "reader",
        "service",
        "session",
        "state",
        "version",
        "wait_ms",
        "whole",
    )

    def __init__(
        self,
        service: FetchOwner,
        session: Session,
        request: FetchRequest,
        version: int,
        listener: str,
        reader: TopicReader | None,
    ) -> None:
        self.service = service
        self.reader = None if session.is_follower else reader
        """Says which topics the consumer may read; None if it may read all."""
        self.session = session
        self.state = FetchState.APPLYING
        self.bucket = -1
        """Its index among the deadlines; -1 in each state but DELAYED."""
        self.deadline_ms = 0.0
        self.cold_reads = 0
        self.wait_ms = max(request.max_wait_ms, 0)
        self.committed = request.isolation_level == READ_COMMITTED
        """Return records only of transactions that have ended."""
        self.leader_only = session.is_follower or version < FOLLOWERS_SERVE_SINCE
        self.max_bytes = min(request.max_bytes, service.response_bytes_max)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.version = version
        self.listener = listener
        self.rack = "" if self.leader_only else request.rack_id
        """The consumer's rack, if it may read from followers."""
        self.whole = request.session_epoch <= INITIAL_EPOCH
        """A full fetch: its answer names every partition."""

    @property
    def is_applying(self) -> bool:
        """Whether the request is still being applied to its session."""
        return self.state is FetchState.APPLYING

    def enter(self, state: FetchState) -> None:
        """Make a move of `FETCH_MOVES`."""
        assert state in FETCH_MOVES[self.state], f"{self} may not become {state.value}"
        self.state = state

    def new_read_pass(self, *, whole: bool) -> ReadPass:
        return ReadPass(
            self.committed, whole, self.cold_reads >= self.service.bounds.cold_reads_max
        )

    def on_deadline(self) -> None:
        self.service.on_deadline(self)

    def validate(self) -> None:
        """Raises AssertionError if a field contradicts the state. For a fetch that its session
        keeps, between two turns of the loop."""
        state = self.state
        assert state is not FetchState.ENDED, f"{self.session} keeps {self}"
        assert self.session.delayed_fetch is self, f"{self.session} has forgotten {self}"
        has_deadline = self.bucket != -1
        assert has_deadline == (state is FetchState.DELAYED), f"{self}: bucket {self.bucket}"
        if state is FetchState.APPLYING:
            assert isinstance(self.parked, Working), f"{self} outlived its turn"
        if state is FetchState.READING:
            assert self.whole, f"{self} reads partitions of which it need not tell"
        if state is FetchState.READING_COLD:
            assert self.cold_reads, f"{self} has no background job"

    def __repr__(self) -> str:
        return f"DelayedFetch({self.state.value}, {self.session}, min {self.min_bytes} bytes)"


class DelayedFetchAnswer(Parked):
    """The answer of a fetch that waits for records. Answers to later requests of its connection
    wait with it, as in Kafka, so that ``fetch.min.bytes`` holds. For some seconds after a broker's
    death the fetch is answered as soon as a later answer is ready: a client that asks for metadata
    or its coordinator on the same connection gets them at once.

    Fetch and answer refer to each other only while the fetch waits. Otherwise an answer would keep
    its fetch, and megabytes of records, until the next collection of reference cycles.
    """

    __slots__ = ("_fetch",)

    def __init__(self, fetch: DelayedFetch) -> None:
        super().__init__()
        self._fetch: DelayedFetch | None = fetch

    def complete(self, response: Message | None) -> bool:
        self._fetch = None
        return super().complete(response)

    def abandon(self) -> None:
        self._fetch = None
        super().abandon()

    def hurry(self) -> None:
        if self._fetch is not None and self._fetch.service.brokers_died():
            self._fetch.on_deadline()
