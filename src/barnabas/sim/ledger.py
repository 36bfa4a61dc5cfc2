"""The transactions of a run, and the check of what a reader of committed records sees of them.

Each transaction writes numbered records to one topic, the ledger, and advances its group's offset by the
records of an imagined source that it covers. So the ledger alone shows whether processing was exactly once.
Anomalies have Jepsen's names:

- aborted read: a record is seen of a transaction that no client asked to commit
- torn transaction: some records of a transaction are seen, others are not
- lost write: a transaction is committed, and its records are not seen
- a duplicate, a reordering, and committed offsets that do not fit the records
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.sim.history import Violation

LEDGER = "ledger"


@dataclass(slots=True)
class Attempt:
    """One transaction. It covers the source's records from `first` up to, not including, `behind`."""

    number: int
    transactional_id: str
    first: int
    behind: int
    with_offsets: bool
    records: dict[bytes, int] = field(default_factory=dict)
    """Value → partition of the ledger, in the order of sending."""
    is_asked: bool = False
    """A client asked to commit it: from then on it may be committed, whatever the response says."""
    is_committed: bool = False
    """The commit was acknowledged."""


class Ledger:
    """All transactions of a run."""

    def __init__(self) -> None:
        self.attempts: dict[int, Attempt] = {}
        self._of_value: dict[bytes, Attempt] = {}
        self.seen: dict[int, dict[int, bytes]] = {}
        """Partition → offset → the value that readers of committed records saw there during the run."""
        self.offsets_last = True
        """Whether committed offsets are kept until the run ends."""
        self.expired: Mapping[str, int] = {}
        """Group → how often its offsets expired: so often its transactions may begin again at record 0."""
        self.forgets_deletions = False
        """Whether an expired offset may appear again (:mod:`~barnabas.sim.offset_commits`)."""
        self.is_lost = False
        """Whether an operator gave up committed metadata: nothing is promised any more."""

    def begin(self, transactional_id: str, first: int, count: int, with_offsets: bool) -> Attempt:
        attempt = Attempt(len(self.attempts), transactional_id, first, first + count, with_offsets)
        self.attempts[attempt.number] = attempt
        return attempt

    def on_sent(self, attempt: Attempt, partition: int) -> bytes:
        """The value of the next record."""
        value = b"%s/%d/%d" % (
            attempt.transactional_id.encode(), attempt.number, len(attempt.records),
        )  # fmt: skip
        attempt.records[value] = partition
        self._of_value[value] = attempt
        return value

    def on_read(self, partition: int, offset: int, value: bytes) -> None:
        """A reader of committed records received this record. Raises :class:`Violation`."""
        if self.is_lost:
            return
        attempt = self._attempt(partition, offset, value)
        known = self.seen.setdefault(partition, {}).setdefault(offset, value)
        if known != value:
            raise Violation(
                f"{LEDGER}-{partition} offset {offset} was read as {known!r} and as {value!r}"
            )
        if not attempt.is_asked:
            raise Violation(
                f"{LEDGER}-{partition} offset {offset}: an aborted read: {value!r}, of a transaction that"
                " no client asked to commit"
            )

    def _attempt(self, partition: int, offset: int, value: bytes) -> Attempt:
        attempt = self._of_value.get(value)
        if attempt is None or attempt.records[value] != partition:
            raise Violation(
                f"{LEDGER}-{partition} offset {offset}: no client wrote {value!r} there"
            )
        return attempt

    def check_final(
        self, final: Mapping[int, Mapping[int, bytes]], committed: Mapping[str, int]
    ) -> None:
        """`final`: all committed records by partition and offset, after everything healed; `committed`: the
        offset of each transactional id's group. Raises :class:`Violation`."""
        for partition, records in final.items():
            for offset in sorted(records):
                self.on_read(partition, offset, records[offset])
        for partition, seen in self.seen.items():
            for offset, value in seen.items():
                if final[partition].get(offset) != value:
                    raise Violation(
                        f"{LEDGER}-{partition}: {value!r} was read at offset {offset}, where now"
                        f" {final[partition].get(offset)!r} is"
                    )
        self._check_whole(final)
        self._check_order(final)
        if self.offsets_last:
            self._check_offsets(final, committed)

    def _check_whole(self, final: Mapping[int, Mapping[int, bytes]]) -> None:
        there = {value for records in final.values() for value in records.values()}
        for attempt in self.attempts.values():
            found = [value for value in attempt.records if value in there]
            missing = [value for value in attempt.records if value not in there]
            if found and missing:
                raise Violation(
                    f"{LEDGER}: a torn transaction: {found[0]!r}, but not {missing[0]!r}"
                )
            if attempt.is_committed and missing:
                raise Violation(f"{LEDGER}: a lost write: {missing[0]!r} was committed")

    def _check_order(self, final: Mapping[int, Mapping[int, bytes]]) -> None:
        for partition, records in final.items():
            last: dict[str, tuple[int, int]] = {}
            for offset in sorted(records):
                name, number, index = records[offset].rsplit(b"/", 2)
                place = (int(number), int(index))
                before = last.get(name.decode(), (-1, -1))
                if place == before:
                    raise Violation(f"{LEDGER}-{partition}: {records[offset]!r} is there twice")
                if place < before:
                    raise Violation(
                        f"{LEDGER}-{partition}: a reordering: {records[offset]!r} behind {before}"
                    )
                last[name.decode()] = place

    def _check_offsets(
        self, final: Mapping[int, Mapping[int, bytes]], committed: Mapping[str, int]
    ) -> None:
        """The transactions that are seen cover the source's records from 0 to the committed offset, each
        once. Where the offset expired they may begin at 0 again, once per expiration."""
        there = {value for records in final.values() for value in records.values()}
        moved: dict[str, list[Attempt]] = {}
        for attempt in self.attempts.values():
            if attempt.with_offsets and any(value in there for value in attempt.records):
                moved.setdefault(attempt.transactional_id, []).append(attempt)
        for name in sorted({*moved, *committed}):
            renewals = self.expired.get(name, 0)
            if renewals and self.forgets_deletions:
                continue
            at = 0
            for attempt in _in_order(moved.get(name, []), by_number=renewals > 0):
                if attempt.first != at and attempt.first == 0 and renewals > 0:
                    renewals -= 1
                elif attempt.first != at:
                    raise Violation(
                        f"{LEDGER}: offsets do not fit: {name}'s transactions stand for the records before"
                        f" {at}, the next one for those from {attempt.first}"
                    )
                at = attempt.behind
            found = committed.get(name, 0)
            if found != at and not (found == 0 and renewals > 0):
                raise Violation(
                    f"{LEDGER}: offsets do not fit: {name}'s group has committed"
                    f" {found}, its transactions stand for {at}"
                )


def _in_order(attempts: list[Attempt], *, by_number: bool) -> list[Attempt]:
    """Sorted by the source's records that they cover, or `by_number`: in the order in which they began. The
    second is for groups that read the source's records again."""
    return sorted(attempts, key=lambda one: one.number if by_number else one.first)
