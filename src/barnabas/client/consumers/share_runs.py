"""Records of one partition that one share fetch acquired, decoded when they are taken. Sans-IO.

A member says of each acquired offset what became of it. The run says it itself of those that no program
gets: offsets without a record are gaps, records that cannot be decoded are rejected, and those behind bytes
that were damaged on their way are released.

Source: ``ShareCompletedFetch`` of Apache Kafka's clients 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from barnabas.client.records import DeliveredRecord
from barnabas.record.batch import BatchView, CorruptBatchError, iterate
from barnabas.record.decode import records_of
from barnabas.types import Buffer, TopicPartition, new_tuple


class Acknowledge(IntEnum):
    """The kinds of acknowledgement; numbers as in requests."""

    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    """It is delivered again."""
    REJECT = 3
    """It is not delivered again."""
    RENEW = 4
    """Its lock begins again."""


Offsets = int | range
"""One offset, or all of a range."""
APART_MAX = 1_000
"""The most neighbours that are kept one by one. A broker may say that a member holds millions of offsets."""


class AcquiredRange(NamedTuple):
    """Offsets that the member holds."""

    first: int
    last: int
    deliveries: int


class ShareRun:
    """The records of one partition in one answer."""

    __slots__ = ("_acquired", "_at", "_index", "_records", "data", "partition", "said", "until_ms")

    def __init__(
        self,
        partition: TopicPartition,
        acquired: Sequence[AcquiredRange],
        data: Buffer,
        until_ms: float,
    ) -> None:
        """`acquired` is sorted. The locks end at `until_ms`, perhaps later."""
        self.partition = partition
        self.data = data
        self.until_ms = until_ms
        self.said: dict[Offsets, int] = {}
        """The kinds of offsets that no program gets."""
        self._acquired = acquired
        self._index = 0
        self._at = acquired[0].first if acquired else 0
        """The next offset in the range `_index` of which nothing is known."""
        self._records = self._walk()

    def __repr__(self) -> str:
        return f"ShareRun({self.partition} {list(self._acquired)})"

    def take(self, records_max: int) -> list[DeliveredRecord]:
        """The next records; fewer than `records_max` where no more follow."""
        return list(islice(self._records, records_max))

    def rest(self) -> list[Offsets]:
        """The offsets of records that were not taken."""
        return [
            offsets
            for part in self._acquired[self._index :]
            for offsets in _apart(range(max(part.first, self._at), part.last + 1))
        ]

    def _walk(self) -> Iterator[DeliveredRecord]:
        try:
            for batch in iterate(self.data, crc=True):
                if self._index == len(self._acquired):
                    return
                header = batch.header
                if header.last_offset >= self._at and not header.is_control:
                    yield from self._records_of(batch)
        except CorruptBatchError:
            self._say(Acknowledge.RELEASE)
        else:
            self._say(Acknowledge.GAP)

    def _records_of(self, batch: BatchView) -> Iterator[DeliveredRecord]:
        try:
            for record in records_of(batch, start=self._at):
                deliveries = self._reach(record.offset)
                if deliveries:
                    yield new_tuple(DeliveredRecord, self.partition + record + (deliveries,))
        except CorruptBatchError:  # its CRC is right: this is what was written
            self._say(Acknowledge.REJECT, batch.header.last_offset)

    def _reach(self, offset: int) -> int:
        """There is a record at `offset`, and none between it and the one before. How often it was
        delivered; 0 where the member does not hold it."""
        self._say(Acknowledge.GAP, offset - 1)
        if self._index == len(self._acquired):
            return 0
        part = self._acquired[self._index]
        if offset < self._at:
            return 0
        self._step(offset)
        return part.deliveries

    def _say(self, kind: Acknowledge, last: int | None = None) -> None:
        """This is true of all offsets until `last`; of all where None."""
        while self._index < len(self._acquired):
            part = self._acquired[self._index]
            end = part.last if last is None else min(part.last, last)
            if end < self._at:
                return
            self.said.update(dict.fromkeys(_apart(range(self._at, end + 1)), int(kind)))
            self._step(end)

    def _step(self, offset: int) -> None:
        """All until `offset` is known."""
        part = self._acquired[self._index]
        self._at = offset + 1
        if offset == part.last:
            self._index += 1
            if self._index < len(self._acquired):
                self._at = self._acquired[self._index].first


def _apart(offsets: range) -> Iterable[Offsets]:
    """One by one, or as the range where it is long."""
    return offsets if offsets.stop - offsets.start <= APART_MAX else [offsets]
