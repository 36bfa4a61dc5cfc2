"""A share partition does to each record what a table of records would say.

The model has one entry per offset. What the machine delivers must be available in the model; everything else
follows from what was asked. So no record has two holders, none is delivered more often than the limit, and
none that is final comes again, whatever fails. Where the group has a dead-letter topic, no record that was
rejected or delivered too often is kept as archived before its dead letter is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.broker.share.open_letters import DeadLetter
from barnabas.broker.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    ShareLimits,
    SharePartition,
    Wanted,
)
from barnabas.broker.share.state_writes import StateWrite
from barnabas.share.delivery import DeliveryState, StateBatch, combine
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples

LIMITS = ShareLimits(deliveries_max=3, in_flight_max=24, lock_ms=100, renews=True)
A, H, F, L, R = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACQUIRED,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVING,
    DeliveryState.ARCHIVED,
)
LOCK_ENDED, LETTER = "its lock has ended, which is not written", "its dead letter is not written"
MEMBERS = st.sampled_from(("m1", "m2", "m3"))


@dataclass
class Record:
    """The model's record."""

    state: DeliveryState = A
    deliveries: int = 0
    member: str = ""
    lock_ms: float = 0.0
    pending: object | None = None


class SharePartitionModel(RuleBasedStateMachine):
    """Members, time, and a share coordinator that may fail."""

    limits = LIMITS

    def __init__(self) -> None:
        super().__init__()
        self.letters: list[DeadLetter] = []
        self.to_letter: set[int] = set()
        """Records that become dead letters."""
        self.lettered: set[int] = set()
        self.now_ms = 0.0
        self.machine = SharePartition(0, 1, 0)
        self.records: dict[int, Record] = {}
        self.start = 0
        """The log's own start."""
        self.layout = [(4 * i, 4 * i + 3) for i in range(40)]
        self.kept: tuple[StateBatch, ...] = ()
        self.kept_start = 0
        self.writing: StateWrite | None = None

    def record(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())

    def archive(self, offset: int) -> DeliveryState:
        """The state of a record that is not delivered again."""
        if not self.limits.dead_letters:
            return R
        self.to_letter.add(offset)
        return L

    def end_lock(self, offset: int, record: Record) -> None:
        record.state, record.member = A, ""
        if record.deliveries >= LIMITS.deliveries_max:
            record.state = self.archive(offset)
            record.pending = LOCK_ENDED if record.state is L else None

    def is_in(self, record: Record, write: StateWrite) -> bool:
        return record.pending is write or record.pending in write.changes

    @rule(member=MEMBERS, most=st.integers(1, 12), strict=st.booleans(), batches=st.integers(1, 4))
    def acquire(self, member: str, most: int, strict: bool, batches: int) -> None:
        machine = self.machine
        if not machine.can_acquire(LIMITS):
            return
        offset = machine.next_fetch_offset()
        read = [batch for batch in self.layout if batch[1] >= offset][:batches]
        wanted = Wanted(most, 3, strict)
        before, end = machine.in_flight.size, machine.in_flight.end
        got = machine.acquire(member, wanted, offset, read, LIMITS, self.now_ms)
        count = 0
        for part in got:
            for at in range(part.first, part.last + 1):
                record = self.record(at)
                assert record.state is A and record.pending is None, (at, record)
                assert at >= self.start
                record.state, record.member = H, member
                record.deliveries += 1
                record.lock_ms = self.now_ms + LIMITS.lock_ms
                assert record.deliveries == part.deliveries <= LIMITS.deliveries_max
                count += 1
        assert count <= most or not strict
        assert count < most + 4
        if machine.in_flight.end > end:
            assert before < LIMITS.in_flight_max
        assert got or offset > read[-1][1], "what is available is delivered"

    @rule(
        member=MEMBERS,
        kind=st.sampled_from((GAP, ACCEPT, RELEASE, REJECT, RENEW)),
        at=st.integers(0, 200),
        size=st.integers(1, 6),
    )
    def acknowledge(self, member: str, kind: int, at: int, size: int) -> None:
        """Most often of records that some member holds or held."""
        delivered = [offset for offset, record in self.records.items() if record.deliveries]
        first = delivered[at % len(delivered)] if delivered else at
        self._acknowledge(member, kind, first, first + size - 1)

    def _acknowledge(self, member: str, kind: int, first: int, last: int) -> None:
        begin = self.machine.in_flight.start
        told = {at: self.record(at) for at in range(max(first, begin), last + 1)}
        right = all(
            r.state is H and r.member == member and r.pending is None for r in told.values()
        )
        try:
            change = self.machine.acknowledge(
                member, [Acknowledgement(first, last, kind)], self.limits, self.now_ms
            )
        except KafkaError as error:
            assert not right
            assert error.code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
            return
        assert right
        for at, record in told.items():
            if kind == RENEW:
                record.lock_ms = self.now_ms + LIMITS.lock_ms
                continue
            record.pending = change
            self.to_letter.discard(at)
            record.state = {GAP: R, REJECT: R, ACCEPT: F, RELEASE: A}[kind]
            spent = kind == RELEASE and record.deliveries >= LIMITS.deliveries_max
            if kind == REJECT or spent:
                record.state = self.archive(at)

    @rule(at=st.integers(0, 200), kind=st.sampled_from((ACCEPT, RELEASE, RENEW)))
    def acknowledge_all_of_a_delivery(self, at: int, kind: int) -> None:
        held = [piece for piece in self.machine.in_flight.pieces if piece.member]
        if held:
            piece = held[at % len(held)]
            self._acknowledge(piece.member, kind, piece.first, piece.last)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        change = self.machine.release(member, self.limits)
        for at, record in self.records.items():
            if record.state is H and record.member == member and record.pending is None:
                record.pending = change
                spent = record.deliveries >= LIMITS.deliveries_max
                record.state = self.archive(at) if spent else A

    @rule(passed_ms=st.sampled_from((1, 40, 120)))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        if self.machine.deadline_ms() <= self.now_ms:
            self.machine.on_deadline(self.limits, self.now_ms)
        for at, record in self.records.items():
            if record.state is H and record.pending is None and record.lock_ms <= self.now_ms:
                self.end_lock(at, record)

    @precondition(lambda self: self.writing is None)
    @rule()
    def begin_write(self) -> None:
        self.writing = self.machine.take_write()
        for record in self.records.values():
            if record.pending is LOCK_ENDED and self.writing is not None:
                record.pending = self.writing

    @precondition(lambda self: self.writing is not None)
    @rule(fails=st.booleans())
    def end_write(self, fails: bool) -> None:
        write, self.writing = self.writing, None
        assert write is not None
        if not fails:
            self.kept_start = max(self.kept_start, write.start_offset)
            self.kept = combine(self.kept, write.batches, self.kept_start)
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost") if fails else None
        self.machine.on_written(write, error, self.limits, self.now_ms)
        for at, record in self.records.items():
            if record.pending is None or not self.is_in(record, write):
                continue
            if not fails:
                record.pending, record.member = LETTER if record.state is L else None, ""
            elif record.pending is write:
                record.pending = LOCK_ENDED
            elif record.lock_ms > self.now_ms:
                record.pending, record.state = None, H
                self.to_letter.discard(at)
            else:
                record.pending = None
                self.to_letter.discard(at)
                self.end_lock(at, record)
        self.take_letters()

    def take_letters(self) -> None:
        for letter in self.machine.letters.take():
            self.letters.append(letter)
            begin = max(letter.first, self.machine.in_flight.start)
            for at in range(begin, letter.last + 1):
                record = self.record(at)
                assert (record.state, record.pending) == (L, LETTER), (at, record)
                assert record.deliveries == letter.deliveries

    @precondition(lambda self: self.letters)
    @rule(at=st.integers(0, 100))
    def a_letter_is_written(self, at: int) -> None:
        letter = self.letters.pop(at % len(self.letters))
        self.lettered |= set(range(letter.first, letter.last + 1))
        self.machine.on_dead_letters([letter])
        for offset in range(letter.first, letter.last + 1):
            record = self.record(offset)
            if record.pending is LETTER:
                record.state, record.pending = R, None

    @rule(by=st.integers(1, 5))
    def log_start_moves(self, by: int) -> None:
        self.start = max(self.start, min(self.machine.in_flight.start + by, 150))
        self.machine.advance_log_start(self.start)

    @precondition(lambda self: self.writing is None)
    @rule()
    def another_leader_reads(self) -> None:
        """What was not kept is forgotten: those records are delivered again."""
        self.machine = SharePartition(0, 1, self.kept_start, self.kept)
        self.machine.advance_log_start(self.start)
        self.records = {}
        for batch in self.kept:
            for at in range(batch.first, batch.last + 1):
                record = self.records[at] = Record(DeliveryState(batch.state), batch.deliveries)
                record.pending = LETTER if record.state is L else None
        self.machine.letters.resume(LIMITS.deliveries_max)
        self.letters = []
        self.take_letters()

    @invariant()
    def what_is_kept_as_archived_has_its_dead_letter(self) -> None:
        kept = {at for b in self.kept if b.state == R for at in range(b.first, b.last + 1)} | set(
            range(self.kept_start)
        )
        lost = kept & self.to_letter - self.lettered
        assert not {at for at in lost if at >= self.start}

    @invariant()
    def every_record_is_as_the_model_says(self) -> None:
        self.machine.validate()
        flight = self.machine.in_flight
        for piece in flight.pieces:
            for at in range(piece.first, piece.last + 1):
                record = self.record(at)
                assert (record.state, record.deliveries) == (piece.state, piece.deliveries), at
                assert (record.pending is None) == (piece.pending is None), (at, record)
                if piece.state is H:
                    assert record.member == piece.member, at
        for at, record in self.records.items():
            if at < flight.start and at >= self.start:
                assert record.state.is_final and record.pending is None, (at, record, flight)
            if at >= flight.end:
                assert record.state is A and not record.deliveries, (at, record, flight)


TestSharePartition = SharePartitionModel.TestCase
TestSharePartition.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)


class DeadLetterModel(SharePartitionModel):
    """The group has a dead-letter topic."""

    limits = LIMITS._replace(dead_letters=True)


TestDeadLetters = DeadLetterModel.TestCase
TestDeadLetters.settings = TestSharePartition.settings
