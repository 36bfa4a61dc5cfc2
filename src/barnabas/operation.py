"""The instant and the outcome of an operation of a coordinator's machine: groups' and transactions' alike.

A machine decides and returns; the shard that owns its log answers, writes and performs. The order of an
outcome's fields is the order in which they take place.

Source: Kafka's ``CoordinatorResult``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Self, TypeVar

from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

Record = TypeVar("Record")
Effect = TypeVar("Effect")


class Instant(NamedTuple):
    """The time of an operation, on both clocks."""

    now_ms: float
    """Milliseconds of the monotonic clock, for deadlines."""
    wall_ms: int
    """Milliseconds since 1970-01-01 UTC, for records."""


@dataclass(slots=True)
class Outcome(Generic[Record, Effect]):
    """A machine's answer to one operation."""

    records: list[Record] = field(default_factory=list)
    """The records that were decided."""
    reply: Message | KafkaError | None = None
    """The operation's own answer, given when the records and all before them are committed."""
    on_settled: Callable[[ErrorCode, Instant], Self] | None = None
    """Called once: with NONE when the records are committed, with the error when they are lost."""
    effects: list[Effect] = field(default_factory=list)
    """Actions that others have to perform; they depend on nothing unwritten."""
    replies: list[tuple[Parked, Message]] = field(default_factory=list)
    """Answers to requests that waited; they do not depend on `records`, so they are given first."""
    replay: bool = True
    """False where the machine has the state of the records already, which no revert undoes; `on_settled`
    puts that right where they are lost."""
    atomic: bool = True
    """False where the records may be spread over several batches."""
    producer: TransactionalWriter | None = None
    """The producer to whose transaction the records belong: they are a batch of their own then, and take
    effect with its marker. None outside of transactions."""

    def settle_by(self, settled: Callable[[ErrorCode, Instant], Self]) -> None:
        """Call `settled` in place of the present `on_settled`."""
        self.on_settled = settled

    @property
    def decides(self) -> bool:
        """Whether there is something to write."""
        return bool(self.records)


AnyOutcome = Outcome[Any, Any]
"""The outcome of some machine."""
