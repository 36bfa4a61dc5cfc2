"""The committed offsets of one partition's groups, and those of transactions that are still open.

This is storage only: `offsets` decides which offsets are committed, deleted or expired. Both kinds
can be undone until the log has committed them (`timeline`).

Invariant 11, second half: the offset of a place comes from the youngest record about it. No record
replaces a younger one, and only a tombstone removes one. So an offset goes back only if a client
commits a smaller one.

Source: ``OffsetMetadataManager.Offsets`` and ``OpenTransactions`` of Apache Kafka 4.3; KIP-98,
KIP-447.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.timeline import Journal, TimelineMap
from barnabas.types import ZERO_UUID, Uuid

Place = tuple[str, int]
"""Topic and partition."""


class OffsetAndMetadata(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    """The date of its commit."""
    expire_ms: int = -1
    """The date of its expiry, if the client named one; -1 if the broker's retention applies."""
    topic_id: Uuid = ZERO_UUID
    record_offset: int = -1
    """The offset of its record in the log: a transaction's offset does not replace a younger
    one."""


class OffsetTable:
    """Offsets by group, topic and partition."""

    __slots__ = ("_groups", "_journal", "_pending")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._groups: dict[str, TimelineMap[Place, OffsetAndMetadata]] = {}
        self._pending: dict[int, TimelineMap[tuple[str, Place], OffsetAndMetadata]] = {}
        """Offsets of open transactions, by producer id."""

    def __len__(self) -> int:
        """The number of offsets of all groups."""
        return sum(len(places) for places in self._groups.values())

    def get(self, group_id: str, place: Place) -> OffsetAndMetadata | None:
        places = self._groups.get(group_id)
        return None if places is None else places.get(place)

    def committed(self, group_id: str, place: Place) -> OffsetAndMetadata | None:
        places = self._groups.get(group_id)
        return None if places is None else places.committed(place)

    def items(self, group_id: str) -> list[tuple[Place, OffsetAndMetadata]]:
        """The newest offsets of a group."""
        places = self._groups.get(group_id)
        return [] if places is None else places.items()

    def committed_items(self, group_id: str) -> list[tuple[Place, OffsetAndMetadata]]:
        places = self._groups.get(group_id)
        return [] if places is None else list(places.committed_items())

    def group_ids(self) -> list[str]:
        return list(self._groups)

    def put(self, group_id: str, place: Place, offset: OffsetAndMetadata) -> None:
        places = self._groups.get(group_id)
        if places is None:
            places = self._groups[group_id] = TimelineMap(self._journal)
        before = places.put(place, offset)
        assert before is None or before.record_offset < offset.record_offset, (
            f"{group_id}'s offset of {place} goes back unasked: {offset} replaces {before}"
        )

    def remove(self, group_id: str, place: Place) -> None:
        """Remove the offset of a place, and the offsets of open transactions for it."""
        places = self._groups.get(group_id)
        if places is not None:
            places.remove(place)
            if places.is_blank:
                del self._groups[group_id]
        for pending in self._pending.values():
            pending.remove((group_id, place))

    def put_pending(
        self, producer_id: int, group_id: str, place: Place, offset: OffsetAndMetadata
    ) -> None:
        """Add an offset that a transaction will commit."""
        pending = self._pending.get(producer_id)
        if pending is None:
            pending = self._pending[producer_id] = TimelineMap(self._journal)
        before = pending.put((group_id, place), offset)
        assert before is None or before.record_offset < offset.record_offset, (
            f"{group_id}'s offset of {place} in producer {producer_id}'s transaction goes back unasked:"
            f" {offset} replaces {before}"
        )

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Make the transaction's offsets the group's, or drop them."""
        pending = self._pending.get(producer_id)
        if pending is None:
            return
        for (group_id, place), offset in pending.items():
            pending.remove((group_id, place))
            if not committed:
                continue
            existing = self.get(group_id, place)
            if existing is None or offset.record_offset > existing.record_offset:
                self.put(group_id, place, offset)
        if pending.is_blank:
            del self._pending[producer_id]

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Whether an open transaction has an offset there."""
        return any((group_id, place) in pending for pending in self._pending.values())

    def pending_places(self, group_id: str) -> Iterator[Place]:
        """The places for which open transactions have offsets of the group; a place may occur
        twice."""
        for pending in self._pending.values():
            for (owner, place), _ in pending.items():
                if owner == group_id:
                    yield place

    def pending_items(self) -> Iterator[tuple[str, Place, OffsetAndMetadata]]:
        """Group, place and offset of all offsets in open transactions."""
        for pending in self._pending.values():
            for (group_id, place), offset in pending.items():
                yield group_id, place, offset

    def validate(self) -> None:
        """Check that readers get the committed offsets, and that the newest state is not older.
        Raises AssertionError."""
        committed_to = self._journal.committed
        for group_id, places in self._groups.items():
            for place, shown in places.committed_items():
                newest = places.get(place)
                where = f"{group_id}'s offset of {place}"
                assert shown.record_offset < committed_to, (
                    f"{where} is shown before its record is committed, at {committed_to}: {shown}"
                )
                assert newest is None or newest.record_offset >= shown.record_offset, (
                    f"{where} goes back unasked: {newest} is to replace {shown}"
                )

    def sweep(self) -> None:
        """Drop maps that became empty when a removal was committed."""
        for group_id in [key for key, places in self._groups.items() if places.is_blank]:
            del self._groups[group_id]
        for producer_id in [key for key, pending in self._pending.items() if pending.is_blank]:
            del self._pending[producer_id]
