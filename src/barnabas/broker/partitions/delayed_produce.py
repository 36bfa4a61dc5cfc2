"""Produce requests that wait: with acks=all for replication, or for a sync if ``flush.messages``
demands one.

A :class:`DelayedProduce` is one request whose batches are appended and not yet on every member of the
ISR (or not yet on this broker's device). Each partition settles its own slot; when all are settled, or
the request's time is over, the response goes out.

Source: Kafka's ``DelayedProduce``.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.partitions.partition import Partition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce_response import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
)
from barnabas.wire.request import Parked

NO_LEADER = LeaderIdAndEpoch()
Finish = Callable[[ProduceResponse], None]


class DelayedProduce:
    """One parked produce request. `slots` are the partitions' responses that wait."""

    __slots__ = (
        "_deadlines",
        "_finish",
        "_response",
        "bucket",
        "failed",
        "parked",
        "remaining",
        "slots",
    )

    def __init__(
        self,
        response: ProduceResponse,
        deadlines: Deadlines,
        finish: Finish | None,
        parked: Parked,
    ) -> None:
        """`finish` gets a response with an error before it goes out (to name new leaders)."""
        self.failed = False
        """Whether a batch was refused or lost."""
        self._response = response
        self._deadlines = deadlines
        self._finish = finish
        self.parked = parked
        self.slots: list[tuple[Partition, PartitionProduceResponse]] = []
        self.remaining = 0
        self.bucket = -1

    def add(
        self, partition: Partition, offset: int, answer: PartitionProduceResponse, acks: int
    ) -> None:
        """Wait until all records of `partition` before `offset` are on its whole ISR (`acks` -1) or
        on this broker (1), as durable as the configuration demands."""
        if partition.wait_for(offset, self, len(self.slots), replicated=acks == -1):
            # The error code if the request times out first.
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            self.slots.append((partition, answer))
            self.remaining += 1

    def start(self, deadline_ms: float, *, failed: bool) -> Parked:
        """Begin to wait: all batches are appended or refused (`failed`: some were refused)."""
        self.failed = self.failed or failed
        self._deadlines.add(self, deadline_ms)
        return self.parked

    def complete_partition(self, slot: int, code: ErrorCode) -> None:
        answer = self.slots[slot][1]
        answer.error_code = code
        if code:
            self.failed = True
            answer.base_offset = (
                -1 if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else answer.base_offset
            )
        self.remaining -= 1
        if self.remaining == 0 and self.bucket != -1:
            self._deadlines.remove(self)
            self._complete()

    def on_deadline(self) -> None:
        self._complete()

    def _complete(self) -> None:
        if not self.parked.done:
            if self.failed and self._finish is not None:
                self._finish(self._response)
            self.parked.complete(self._response)
