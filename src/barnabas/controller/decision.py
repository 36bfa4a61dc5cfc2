"""The result of a decider: the records to write, the response, and the reasons.

A refusal is a decision without records whose response carries Kafka's error code and a sentence;
deciders raise :class:`KafkaError` only where the whole request is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from barnabas.metadata.image.bulk_isr_shrinks import Shrinks
from barnabas.metadata.image.bulk_partition_records import Replayable
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.controller.decision_context import ControllerContext

R = TypeVar("R")
Record = Message | Shrinks
"""A record of a decision: one record, or a value that represents many."""


class Prepared(NamedTuple):
    """Records that were encoded, and read back for replay, before they are written."""

    values: list[bytes]
    staged: list[Replayable]


@dataclass(slots=True)
class Decision(Generic[R]):
    """`records` are written together; `response` is given once they are committed."""

    response: R
    records: Sequence[Record] = field(default_factory=list)
    reason: str = ""
    work: Iterator[Decision[None]] | None = None
    """Work that is done in slices after the records are applied."""
    then: Callable[[ControllerContext], Decision[R]] | None = None
    """Makes the decision after the work; its response is the answer."""
    prepared: Prepared | None = None
    """The records in encoded form, if there are thousands."""

    def continue_with(
        self, work: Iterator[Decision[None]], then: Callable[[ControllerContext], Decision[R]]
    ) -> None:
        """A decision that does `work` in slices first; `then` makes the decision with the
        answer."""
        self.work, self.then = work, then

    @property
    def size(self) -> int:
        """The number of records."""
        if self.prepared is not None:
            return len(self.prepared.values)
        return sum([len(r) if isinstance(r, Shrinks) else 1 for r in self.records])

    def __repr__(self) -> str:
        return f"Decision({self.size} records, {self.reason or type(self.response).__name__})"
