"""What an operation of the group machine says: replies, records, and what follows once they are settled."""

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
    """When an operation happens."""

    @property
    def now_ms(self) -> float:
        """Monotonic; for deadlines."""

    @property
    def wall_ms(self) -> int:
        """The date; for what is written."""


class Caller(NamedTuple):
    """Who asks."""

    client_id: str = ""
    client_host: str = ""
    """As Kafka prints an address: ``/127.0.0.1``."""
    api_version: int = 0
    may_describe: Callable[[str], bool] | None = None
    """Whether this caller may know of a topic by that name; None where there is no authorizer."""


Settled: TypeAlias = "Callable[[ErrorCode, Instant], Outcome]"


@dataclass(slots=True)
class Outcome:
    """The decision of one operation, in the order in which it takes effect."""

    replies: list[tuple[Parked, Message]] = field(default_factory=list)
    """Answers to requests that waited in the group; they rest on nothing unwritten."""
    records: list[GroupRecord] = field(default_factory=list)
    reply: Message | None = None
    """The operation's own answer, once the records and all before them are committed."""
    on_settled: Settled | None = None
    """What the group does once the records are committed (NONE) or lost (why)."""
    replay: bool = True
    """False where the group holds the records' content already."""
    atomic: bool = True
    """False where the records may be written in parts."""
    producer: TransactionalWriter | None = None
    """Whose transaction the records belong to."""
    effects: tuple[()] = ()
    """None: groups have everything done by replies and records."""

    @property
    def decides(self) -> bool:
        """Whether there is something to write."""
        return bool(self.records)
