"""What an operation of the transaction machine says: records, answer, effects, and what follows.

Effects are what others have to do: send markers, get a producer id. The machine rests nothing on them before
an operation brings their result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from barnabas.transaction.record_codec import TransactionRecord
from barnabas.transaction.states import TransactionState
from barnabas.transaction.transaction import Transaction
from barnabas.wire.errors import ErrorCode, KafkaError
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


class SendMarkers(NamedTuple):
    """The end of a transaction is committed: write it into its partitions, then say `complete`."""

    transactional_id: str
    ending: Transaction

    @property
    def commit(self) -> bool:
        return self.ending.state is TransactionState.PREPARE_COMMIT


class GetProducerId(NamedTuple):
    """A transaction whose time is over belongs to a producer without further epochs: get a new id, then say
    `abort_overdue` again."""

    transactional_id: str


class Completed(NamedTuple):
    """An end is complete, as far as this coordinator has decided: who waits for it may begin the next."""

    transactional_id: str


Effect: TypeAlias = "SendMarkers | GetProducerId | Completed"
Settled: TypeAlias = "Callable[[ErrorCode, Instant], Outcome]"


class NeedsProducerId(KafkaError):
    """The operation cannot decide without a fresh producer id: get one and ask again with it."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a producer id is to be had first")


@dataclass(slots=True)
class Outcome:
    """The decision of one operation, in the order in which it takes effect."""

    records: list[TransactionRecord] = field(default_factory=list)
    reply: Message | KafkaError | None = None
    """The operation's answer, once the records and all before them are committed."""
    on_settled: Settled | None = None
    """What follows once the records are committed (NONE) or lost (why)."""
    effects: list[Effect] = field(default_factory=list)
    replies: list[tuple[Parked, Message]] = field(default_factory=list)
    replay: bool = True
    atomic: bool = True
    producer: None = None
    """Its records belong to no transaction."""
