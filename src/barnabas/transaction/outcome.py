"""The outcome of an operation of the transaction machine: records, reply, effects, and a continuation.

Effects are performed by the coordinator: send markers, get a producer id. Their results come back as
operations.
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
        """Milliseconds since 1970; for records."""


class SendMarkers(NamedTuple):
    """The decision to end a transaction is committed: write its markers, then call `complete`."""

    transactional_id: str
    ending: Transaction

    @property
    def commit(self) -> bool:
        return self.ending.state is TransactionState.PREPARE_COMMIT


class GetProducerId(NamedTuple):
    """A transaction that timed out is of a producer without epochs left: get a new producer id, then call
    `abort_overdue` again."""

    transactional_id: str


class Completed(NamedTuple):
    """The transaction's last record was decided: requests that wait for its end may continue."""

    transactional_id: str


Effect: TypeAlias = "SendMarkers | GetProducerId | Completed"
Settled: TypeAlias = "Callable[[ErrorCode, Instant], Outcome]"


class NeedsProducerId(KafkaError):
    """The operation needs an unused producer id: get one and call it again with that."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a producer id is needed first")


@dataclass(slots=True)
class Outcome:
    """The decision of one operation; its fields in the order in which they take effect."""

    records: list[TransactionRecord] = field(default_factory=list)
    reply: Message | KafkaError | None = None
    """The operation's answer, sent when the records and all before them are committed."""
    on_settled: Settled | None = None
    """Called when the records are committed (NONE), or lost (with the error)."""
    effects: list[Effect] = field(default_factory=list)
    replies: list[tuple[Parked, Message]] = field(default_factory=list)
    replay: bool = True
    atomic: bool = True
    producer: None = None
    """No producer: the records are not transactional."""
