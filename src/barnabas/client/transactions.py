"""The content of one transaction of a producer, as far as its batches are concerned. Plain state.

Up to transaction.version 1 the client adds each partition to the transaction before it writes there
(AddPartitionsToTxn, Produce up to version 11); from 2 on the first batch does (Produce 12, KIP-890).
A batch that fails spoils the transaction: it can only be aborted.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

PRODUCE_BEFORE_IMPLICIT = 11
"""The last version of Produce in which a batch adds no partition."""


class ClientTransaction:
    """The transactions of one transactional id, one after the other."""

    __slots__ = (
        "failure",
        "has_gap",
        "implicit",
        "is_open",
        "on_wanted",
        "partitions",
        "transactional_id",
        "wanted",
        "with_offsets",
    )

    def __init__(self, transactional_id: str, on_wanted: Callable[[], None]) -> None:
        """`on_wanted` is called when a partition has to be added before anything can be written there."""
        self.transactional_id = transactional_id
        self.on_wanted = on_wanted
        self.implicit = True
        self.is_open = False
        self.partitions: set[TopicPartition] = set()
        """Those that belong to it."""
        self.wanted: dict[TopicPartition, None] = {}
        """Those that have batches and do not belong to it yet."""
        self.with_offsets = False
        """A group's offsets belong to it."""
        self.failure: Exception | None = None
        """Why it can only be aborted."""
        self.has_gap = False
        """A batch that was sent has failed: its sequence numbers may be missing."""

    def __repr__(self) -> str:
        state = "open" if self.is_open else "none"
        return (
            f"ClientTransaction({self.transactional_id} {state}, {len(self.partitions)} partitions)"
        )

    @property
    def is_empty(self) -> bool:
        """Its coordinator has not heard of it."""
        return not self.partitions and not self.with_offsets

    @property
    def refusal(self) -> Exception | None:
        """Why nothing can be written now."""
        if not self.is_open:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction was begun")
        return self.failure

    @property
    def produce_at_most(self) -> int | None:
        return None if self.implicit else PRODUCE_BEFORE_IMPLICIT

    def begin(self) -> None:
        self.is_open = True

    def end(self) -> None:
        """It is committed or aborted."""
        self.is_open = self.with_offsets = self.has_gap = False
        self.partitions.clear()
        self.wanted.clear()
        self.failure = None

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch may go to `partition` now."""
        if partition in self.partitions:
            return True
        if self.implicit:
            self.partitions.add(partition)
            return True
        if partition not in self.wanted:
            self.wanted[partition] = None
            self.on_wanted()
        return False

    def on_failed(self, error: Exception, *, sent: bool) -> None:
        """A batch or a request failed; `sent`: it may have arrived."""
        self.has_gap = self.has_gap or sent
        if self.failure is None:
            self.failure = error
