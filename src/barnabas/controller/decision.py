"""What a decider returns: the records to write, the answer to give, and why.

A refusal is a decision without records whose response carries Kafka's error code and a sentence;
deciders raise :class:`KafkaError` only where the whole request is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.controller.cluster import Cluster

R = TypeVar("R")


@dataclass(slots=True)
class Decision(Generic[R]):
    """`records` are written together; `response` is given once they are committed."""

    response: R
    records: list[Message] = field(default_factory=list)
    reason: str = ""
    work: Iterator[Decision[None]] | None = None
    """What remains to be done in slices once the records are applied."""
    then: Callable[[Cluster], Decision[R]] | None = None
    """After the work: the decision that counts, whose response is the answer."""
    values: list[bytes] | None = None
    """The records as bytes, where they were encoded already."""

    def __repr__(self) -> str:
        return (
            f"Decision({len(self.records)} records, {self.reason or type(self.response).__name__})"
        )
