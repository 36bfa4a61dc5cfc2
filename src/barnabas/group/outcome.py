"""The result of an operation of the group machine: replies, records, and a callback for when the records are
committed or lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from barnabas.group.record_codec import GroupRecord
from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.wire.errors import ErrorCode
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message


class Instant(Protocol):
    """The instant of an operation, on both clocks."""

    @property
    def now_ms(self) -> float:
        """Milliseconds of the monotonic clock, for deadlines."""

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, for records."""


class Caller(NamedTuple):
    """The client that sent a request."""

    client_id: str = ""
    client_host: str = ""
    """The address as Kafka prints it: ``/127.0.0.1``."""
    api_version: int = 0
    may_describe: Callable[[str], bool] | None = None
    """Whether this caller may describe the topic of that name; None where there is no authorizer."""


Settled: TypeAlias = "Callable[[ErrorCode, Instant], Outcome]"


@dataclass(slots=True)
class Outcome:
    """The effects of one operation; fields are in the order in which they take place."""

    replies: list[tuple[Parked, Message]] = field(default_factory=list)
    """Answers to requests that waited in the group; they do not depend on `records`, so they are sent
    first."""
    records: list[GroupRecord] = field(default_factory=list)
    reply: Message | None = None
    """The operation's own answer, sent when `records` and all records before them are committed."""
    on_settled: Settled | None = None
    """Called once: with NONE when the records are committed, with the error when they are lost."""
    replay: bool = True
    """False where the operation has changed the group already, so that the records are not replayed."""
    atomic: bool = True
    """False where the records may be written in parts."""
    producer: TransactionalWriter | None = None
    """The producer to whose transaction the records belong; None outside of transactions."""
    effects: tuple[()] = ()
    """Always empty: a group needs no effects beyond replies and records."""

    @property
    def decides(self) -> bool:
        """Whether there is something to write."""
        return bool(self.records)
