"""One share partition (a partition for one share group) at its leader: a pure machine of locks and
deliveries.

A member acquires records, holds them until its lock ends, and accepts, releases or rejects them. A
record that is released or whose lock ends is delivered again, `deliveries_max` times at most; then
it is archived, like a rejected record. An acknowledgement is answered after its outcome is written
to the share coordinator; a failed write gives the records back to their member (`state_writes`).

If the group has a dead-letter topic, a record is ARCHIVING before it is archived. After that is written, its
dead letter is among `letters` (`open_letters`). `on_dead_letters` archives the record, and the start stays
before it until then. A leader that takes over begins with ARCHIVING records again: each dead letter is
written at least once.

Invariants: a record has at most one holder; the start never goes back while this leader leads; a settled
record is not delivered again.

Records that were delivered often are delivered alone or in small parts: a record that crashes its
consumers then affects few others. Offsets that the log lacks (compaction, markers) are acquired
with their neighbours; the member acknowledges them as gaps.

Source: ``SharePartition`` of Apache Kafka 4.4; KIP-932, KIP-1191 (dead letters), KIP-1206 (strict
`max_records`), KIP-1222 (renewal), KIP-1226 (`delivery_complete_count`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.broker.share.in_flight import NO_MEMBER, UNLOCKED_MS, InFlightPieces, Piece, total
from barnabas.broker.share.open_letters import (
    DELIVERED_TOO_OFTEN,
    REJECTED,
    DeadLetter,
    OpenLetters,
    add_letter,
)
from barnabas.broker.share.state_writes import DeliveryChange, StateWrite, StateWrites
from barnabas.share.delivery import DeliveryState, StateBatch, combine
from barnabas.wire.errors import ErrorCode, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The kinds of acknowledgement, by their numbers in requests."""
_STATE_AFTER = {
    GAP: DeliveryState.ARCHIVED,
    ACCEPT: DeliveryState.ACKNOWLEDGED,
    RELEASE: DeliveryState.AVAILABLE,
    REJECT: DeliveryState.ARCHIVED,
}
RECORD_LOCKS_MAX = 10_000
"""The largest ``group.share.partition.max.record.locks``. A member acquires no more available records at
once."""
OVERSHOOT_MAX = 10_000
"""The rest of a batch is acquired with its first records where it has this many offsets at most. The count
is in the batch's header, and a small batch may claim millions."""
HELD_MAX = RECORD_LOCKS_MAX + OVERSHOOT_MAX
"""The most offsets that members hold of new records."""
DELIVERED_WHOLE_MIN = 2
"""Records that were delivered less often than this are never delivered in parts."""


class ShareLimits(NamedTuple):
    """The group's present configuration."""

    deliveries_max: int
    in_flight_max: int
    lock_ms: int
    renews: bool
    """Whether members may prolong their locks."""
    dead_letters: bool = False
    """Whether records that are not delivered again become dead letters."""


class Acquired(NamedTuple):
    """Offsets that a member holds now."""

    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """One kind of acknowledgement of offsets `first` to `last`."""

    first: int
    last: int
    kind: int


class Wanted(NamedTuple):
    """The most that a member acquires at once."""

    records_max: int
    batch_size: int = 0
    """Report new records in parts of about this many."""
    strict: bool = False
    """Never acquire more than `records_max`; else the last batch is acquired whole, unless its rest is
    longer than `OVERSHOOT_MAX`."""


class SharePartition:
    """The state of one share partition while its leader leads in one epoch."""

    __slots__ = (
        "_deadline_ms",
        "_writes",
        "in_flight",
        "leader_epoch",
        "letters",
        "lock_timeouts",
        "may_be_available",
        "state_epoch",
    )

    def __init__(
        self,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        batches: Sequence[StateBatch] = (),
    ) -> None:
        """Begin with the share coordinator's state. `batches` are sorted and do not overlap.
        Offsets between them count as not delivered: if an earlier leader delivered them, it did not
        write it."""
        self.leader_epoch = leader_epoch
        self.state_epoch = state_epoch
        self.in_flight = flight = InFlightPieces(start_offset)
        for batch in combine((), batches, start_offset):
            if batch.first > flight.end:
                flight.add(Piece(flight.end, batch.first - 1, DeliveryState.AVAILABLE, 0))
            state = DeliveryState(batch.state)
            flight.add(Piece(batch.first, batch.last, state, batch.deliveries))
        flight.join()
        self.letters = OpenLetters(flight)
        self.may_be_available = bool(len(flight))
        """Whether a piece may be available; else there is nothing to acquire before the end."""
        self.lock_timeouts = 0
        """The number of records whose lock has ended before they were acknowledged."""
        self._deadline_ms = math.inf
        self._writes = StateWrites()

    def __repr__(self) -> str:
        return f"SharePartition(epoch {self.leader_epoch}, state {self.state_epoch}, {self.in_flight!r})"

    def describe(self) -> dict[str, object]:
        """The state, for tools and failing tests."""
        flight = self.in_flight
        return {"start": flight.start, "end": flight.end, "pieces": list(map(repr, flight.pieces))}

    def validate(self) -> None:
        """Raises AssertionError if the pieces break an invariant."""
        self.in_flight.validate()
        first = next(iter(self.in_flight.pieces), None)
        assert first is None or not first.is_settled, f"{first!r} is settled: {self!r}"

    # Delivery

    def next_fetch_offset(self) -> int:
        """The offset to read at for the next delivery: the first available record's, else the end."""
        if self.may_be_available:
            for piece in self.in_flight.pieces:
                if piece.is_available:
                    return piece.first
            self.may_be_available = False
        return self.in_flight.end

    def can_acquire(self, limits: ShareLimits) -> bool:
        """Whether a member may acquire records, if the log has them."""
        flight = self.in_flight
        return self.next_fetch_offset() < flight.end or flight.size < limits.in_flight_max

    def acquire(
        self,
        member: str,
        wanted: Wanted,
        fetch_offset: int,
        batches: Sequence[tuple[int, int]],
        limits: ShareLimits,
        now_ms: float,
    ) -> list[Acquired]:
        """Let `member` acquire what it wants of `batches` (first and last offset of each), which
        were read from `fetch_offset` on."""
        if not batches or wanted.records_max <= 0:
            return []
        flight = self.in_flight
        begin, last = batches[0][0], batches[-1][1]
        if fetch_offset < begin:
            self._skip_missing(fetch_offset, begin)
        position = max(begin, flight.start)
        if last < position:
            return []
        found, is_whole = self._acquire_again(
            member, wanted, (position, last), batches, limits, now_ms
        )
        left = wanted.records_max - sum(part.last - part.first + 1 for part in found)
        first, room = max(flight.end, position), limits.in_flight_max - flight.size
        if is_whole and left > 0 and room > 0 and first <= last:
            upto = _end_of(first, min(left, room), last, batches, wanted)
            lock_ms = self._lock(limits, now_ms)
            flight.add(Piece(first, upto, DeliveryState.ACQUIRED, 1, member, lock_ms))
            found += _parts(first, upto, batches, wanted)
        return found

    def _acquire_again(
        self,
        member: str,
        wanted: Wanted,
        span: tuple[int, int],
        batches: Sequence[tuple[int, int]],
        limits: ShareLimits,
        now_ms: float,
    ) -> tuple[list[Acquired], bool]:
        """Let the member acquire available records in `span`, and return whether it may acquire
        others with them."""
        found: list[Acquired] = []
        left = min(wanted.records_max, RECORD_LOCKS_MAX)
        for piece in self.in_flight.over(*span):
            if left <= 0:
                break
            if not piece.is_available:
                continue
            first, last = max(piece.first, span[0]), min(piece.last, span[1])
            part = _part_size(piece, limits.deliveries_max)
            if part and found:
                return found, False
            if part:
                last = min(last, first + part - 1)
            last = _end_of(first, left, last, batches, wanted)
            for taken in self.in_flight.between(first, last):
                taken.state, taken.member = DeliveryState.ACQUIRED, member
                taken.deliveries += 1
                taken.lock_ms = self._lock(limits, now_ms)
                found.append(Acquired(taken.first, taken.last, taken.deliveries))
            left -= last - first + 1
            if part:
                return found, False
        return found, True

    def _skip_missing(self, offset: int, begin: int) -> None:
        """Archive the offsets from `offset` to before `begin`, which the log does not have."""
        flight = self.in_flight
        for piece in flight.between(offset, min(begin, flight.end) - 1):
            if piece.is_available:
                piece.state = DeliveryState.ARCHIVED
        if begin > flight.end:
            flight.add(Piece(flight.end, begin - 1, DeliveryState.ARCHIVED, 0))
        flight.join()

    def archive(
        self, acquired: Sequence[Acquired], ranges: Sequence[tuple[int, int]]
    ) -> list[Acquired]:
        """Archive `ranges` of what was just acquired: their transactions were aborted. Returns the
        rest."""
        left = list(acquired)
        for first, last in ranges:
            kept: list[Acquired] = []
            for part in left:
                if part.last < first or part.first > last:
                    kept.append(part)
                    continue
                for piece in self.in_flight.between(max(part.first, first), min(part.last, last)):
                    _settle(piece, DeliveryState.ARCHIVED)
                if part.first < first:
                    kept.append(part._replace(last=first - 1))
                if part.last > last:
                    kept.append(part._replace(first=last + 1))
            left = kept
        self.in_flight.join()
        return left

    def _lock(self, limits: ShareLimits, now_ms: float) -> float:
        lock_ms = now_ms + limits.lock_ms
        self._deadline_ms = min(self._deadline_ms, lock_ms)
        return lock_ms

    # Acknowledgement

    def acknowledge(
        self, member: str, told: Sequence[Acknowledgement], limits: ShareLimits, now_ms: float
    ) -> DeliveryChange | None:
        """Apply a member's acknowledgements of records that it holds, in the order of offsets: all
        of them, or none. Returns the change to wait for; None if nothing has to be written. Raises
        INVALID_RECORD_STATE, INVALID_REQUEST."""
        start = self.in_flight.start
        present = [
            item._replace(first=max(item.first, start)) for item in told if item.last >= start
        ]
        before = -1
        for item in present:
            if item.first <= before:
                raise _invalid("The record is acknowledged twice.")
            self._check(member, item, limits)
            before = item.last
        change = DeliveryChange()
        for item in present:
            for piece in self.in_flight.between(item.first, item.last):
                if item.kind == RENEW:
                    piece.lock_ms = self._lock(limits, now_ms)
                else:
                    self._begin(piece, item.kind, change, limits)
        return self._queue(change)

    def _check(self, member: str, told: Acknowledgement, limits: ShareLimits) -> None:
        if told.last >= self.in_flight.end:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )
        if told.kind == RENEW and not limits.renews:
            raise _invalid("Renewing acquisition locks is not enabled for the group.")
        for piece in self.in_flight.over(told.first, told.last):
            if piece.state is not DeliveryState.ACQUIRED or piece.pending is not None:
                raise _invalid("The batch cannot be acknowledged. It is not in the acquired state.")
            if piece.member != member:
                raise _invalid("Member is not the owner of batch record")

    def _begin(self, piece: Piece, kind: int, change: DeliveryChange, limits: ShareLimits) -> None:
        state, why = _STATE_AFTER[kind], REJECTED if kind == REJECT else None
        if kind == RELEASE and piece.deliveries >= limits.deliveries_max:
            state, why = DeliveryState.ARCHIVED, DELIVERED_TOO_OFTEN
        self._note(piece, state, change, why if limits.dead_letters else None)

    def _note(
        self, piece: Piece, state: DeliveryState, change: DeliveryChange, why: str | None
    ) -> None:
        """The piece has a new state, which is in effect once `change` is written. Where it is archived for
        a reason it becomes a dead letter before."""
        if state is DeliveryState.ARCHIVED and why is not None:
            state = DeliveryState.ARCHIVING
            add_letter(change.letters, piece, why)
        piece.state, piece.pending = state, change
        change.batches.append(StateBatch(piece.first, piece.last, state, piece.deliveries))

    def release(self, member: str, limits: ShareLimits) -> DeliveryChange | None:
        """The member is gone: release the records that it holds."""
        change = DeliveryChange()
        for piece in self.in_flight.pieces:
            held = piece.state is DeliveryState.ACQUIRED and piece.pending is None
            if held and piece.member == member:
                self._begin(piece, RELEASE, change, limits)
        return self._queue(change)

    def holds(self, member: str) -> int:
        """The number of offsets that the member holds."""
        held = DeliveryState.ACQUIRED
        return total(p for p in self.in_flight.pieces if p.member == member and p.state is held)

    # Time

    def deadline_ms(self) -> float:
        """The time of the next call of `on_deadline`: when the first lock ends, or earlier."""
        return self._deadline_ms

    def on_deadline(self, limits: ShareLimits, now_ms: float) -> bool:
        """End the locks whose time is over, before that is written. Returns whether one ended."""
        change, self._deadline_ms = DeliveryChange(is_effective=True), math.inf
        for piece in self.in_flight.pieces:
            if piece.state is not DeliveryState.ACQUIRED or piece.pending is not None:
                continue
            if piece.lock_ms > now_ms:
                self._deadline_ms = min(self._deadline_ms, piece.lock_ms)
                continue
            self._end_lock(piece, change, limits)
        if not change.batches:
            return False
        self._queue(change)
        self._moved()
        return True

    def _end_lock(self, piece: Piece, change: DeliveryChange, limits: ShareLimits) -> None:
        """Take the piece from its member, and add that to `change`."""
        self.lock_timeouts += len(piece)
        state = _after_lock(piece, limits.deliveries_max)
        if state is DeliveryState.ARCHIVED and limits.dead_letters:
            _settle(piece, DeliveryState.ARCHIVING)
            self._note(piece, state, change, DELIVERED_TOO_OFTEN)
            return
        _settle(piece, state)
        change.batches.append(StateBatch(piece.first, piece.last, state, piece.deliveries))

    # What is written

    def keep_start(self) -> None:
        """Write the start offset although no record has changed: this leader has chosen it."""
        self._writes.add(DeliveryChange(is_effective=True))

    def _queue(self, change: DeliveryChange) -> DeliveryChange | None:
        if not change.batches:
            return None
        self._writes.add(change)
        return change

    @property
    def is_writing(self) -> bool:
        """Whether a change is not written yet."""
        return self._writes.is_busy

    @property
    def writing(self) -> tuple[DeliveryChange, ...]:
        """The changes whose write is under way."""
        return self._writes.under_way

    def take_write(self) -> StateWrite | None:
        """The next write; None if there is nothing to write, or a write is under way."""
        return self._writes.take(self.state_epoch, self.leader_epoch, self.in_flight)

    def on_written(
        self, write: StateWrite, error: KafkaError | None, limits: ShareLimits, now_ms: float
    ) -> None:
        """The write ended. If it failed, its records return to their old state; those whose lock
        has ended meanwhile are released with the next write."""
        changes = self._writes.end(write, failed=error is not None)
        ids, released = set(map(id, changes)), DeliveryChange(is_effective=True)
        for piece in self.in_flight.pieces:
            if piece.pending is None or id(piece.pending) not in ids:
                continue
            piece.pending = None
            if error is None:
                _settle(piece, piece.state)
            elif piece.lock_ms > now_ms:
                piece.state = DeliveryState.ACQUIRED
                self._deadline_ms = min(self._deadline_ms, piece.lock_ms)
            else:
                self._end_lock(piece, released, limits)
        if error is None:
            self.letters.open([letter for change in changes for letter in change.letters])
        self._queue(released)
        self._moved()

    # Dead letters

    def on_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """They are written, or given up: archive their records, which is written next."""
        change = DeliveryChange(is_effective=True)
        change.batches = [batch for letter in letters for batch in self.letters.close(letter)]
        self._queue(change)
        self._moved()

    # The log

    def advance_log_start(self, offset: int) -> None:
        """The log begins at `offset` now: records before it are no longer delivered."""
        if offset > self.in_flight.start:
            self.in_flight.begin_at(offset)
            self._moved()

    def _moved(self) -> None:
        self.in_flight.join()
        self.may_be_available = True


def _settle(piece: Piece, state: DeliveryState) -> None:
    piece.state, piece.member, piece.lock_ms = state, NO_MEMBER, UNLOCKED_MS


def _after_lock(piece: Piece, deliveries_max: int) -> DeliveryState:
    spent = piece.deliveries >= deliveries_max
    return DeliveryState.ARCHIVED if spent else DeliveryState.AVAILABLE


def _part_size(piece: Piece, deliveries_max: int) -> int:
    """The number of records of a piece that are delivered together, by how often it was delivered;
    0: any number."""
    limit = max(DELIVERED_WHOLE_MIN, math.ceil(deliveries_max / 2))
    if piece.deliveries < limit:
        return 0
    if deliveries_max > DELIVERED_WHOLE_MIN and piece.deliveries >= deliveries_max - 1:
        return 1
    return max(1, piece.span >> (piece.deliveries - limit + 1))


def _end_of(
    first: int, records: int, last: int, batches: Sequence[tuple[int, int]], wanted: Wanted
) -> int:
    """The last offset to acquire from `first` on: `records` of them, and the rest of the last batch
    if that is allowed and short."""
    end = first + records - 1
    if end >= last:
        return last
    if not wanted.strict:
        for low, high in batches:
            if low <= end <= high:
                whole = min(high, last)
                return whole if whole - end <= OVERSHOOT_MAX else end
    return end


def _parts(
    first: int, last: int, batches: Sequence[tuple[int, int]], wanted: Wanted
) -> list[Acquired]:
    """Cut new records between batches into parts of about the batch size."""
    parts: list[Acquired] = []
    if not wanted.strict and wanted.batch_size > 0 and last - first + 1 > wanted.batch_size:
        for low, _ in batches:
            if low > last:
                break
            if low - first >= wanted.batch_size:
                parts.append(Acquired(first, low - 1, 1))
                first = low
    parts.append(Acquired(first, last, 1))
    return parts


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, why)
