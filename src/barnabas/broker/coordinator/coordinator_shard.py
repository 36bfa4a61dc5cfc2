"""One coordinator: a machine, the partition that has its records, and the requests that wait for
the two.

Owns the order *decide → replay as uncommitted → append → reply when committed* for one partition,
and undoes decisions that the log refuses. It does not know loading, routing or wake-ups
(:mod:`barnabas.broker.coordinator.coordinators`).

Invariants: ``committed <= written <= next_offset``; the machine has replayed exactly the records
before `next_offset`; `waiting` is in the order of offsets, and so of deadlines.

Source: ``CoordinatorRuntime.CoordinatorContext`` of Apache Kafka 4.3. Kafka's ``CoordinatorShard``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from barnabas.broker.coordinator.latecomers import Latecomers
from barnabas.log.state.producer_state import TRUSTED, TransactionalWriter, Verification
from barnabas.operation import AnyOutcome, Instant, Outcome
from barnabas.ports import call_all
from barnabas.record.batch import HEADER_SIZE
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.compression import Codec
from barnabas.types import Buffer
from barnabas.wire.codec import UnsupportedFieldError
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

RECORD_OVERHEAD_BYTES = 31
"""The bytes that lengths, deltas and attributes of one record without headers take at most."""


class Marker(NamedTuple):
    """A transaction's marker for one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0

    def to_bytes(self, wall_ms: int) -> bytes:
        """The control batch."""
        return end_transaction_marker(
            commit=self.committed,
            timestamp_ms=wall_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
        )


class CoordinatorMachine(Protocol):
    """A pure machine over its own records. Operations are methods of its own, which return an
    :class:`AnyOutcome` or raise ``KafkaError``."""

    def encode(self, record: Any, /) -> tuple[bytes, bytes | None]:
        """Key and value as they are in the log; a value of None is a tombstone."""

    def decode(self, key: bytes | None, value: bytes | None, /) -> Any | None:
        """Inverse of `encode`; None for a kind of record that is to be skipped. Raises ``ValueError``
        where the bytes are damaged."""

    def expect(self, next_offset: int, /) -> None:
        """Expect that the next record gets the offset `next_offset`; called before every
        operation."""

    def replay(self, offset: int, producer_id: int, record: Any, /) -> None:
        """Apply the record at `offset`. Records from `committed` on can be undone."""

    def replay_marker(self, offset: int, producer_id: int, committed: bool, /) -> None:
        """A transaction of `producer_id` ended in this partition."""

    def commit_to(self, offset: int, /) -> None:
        """Records before `offset` are committed; queries see them from now on."""

    def revert_to(self, offset: int, /) -> None:
        """Undo the records from `offset` on."""

    def on_loaded(self, at: Any, /) -> Sequence[AnyOutcome]:
        """All records were replayed: begin to coordinate."""

    def on_unloaded(self) -> Sequence[tuple[Parked, Message]]:
        """Another broker coordinates from now on. Returns the replies to the requests that wait."""

    def deadline_ms(self) -> float:
        """The latest time at which `take_due` is called; infinite if nothing is pending."""

    def take_due(self, at: Any, /) -> AnyOutcome | None:
        """The outcome of one operation that is due; None if none is."""


class CoordinatorLog(Protocol):
    """A partition that this broker leads, as a coordinator uses it. Read methods may be called from
    the moment of `on_elected` to that of `on_resigned`."""

    @property
    def log_dir(self) -> str:
        """The log directory that has the log."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def batch_bytes_max(self) -> int:
        """``max.message.bytes`` of the topic."""

    def append(
        self,
        batch: bytes,
        verification: Verification | None = TRUSTED,
        transaction_version: int = 0,
    ) -> int:
        """Append one batch as with acks=all, without waiting; the log end offset behind it. `verification`
        is of a batch in a transaction, `transaction_version` of a marker. Raises
        ``KafkaError`` (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, ...) where
        nothing was written."""

    def read(self, offset: int, max_bytes: int, *, block: bool = False) -> Buffer | None:
        """Whole batches from the one with `offset` on, at least one; empty at the end of the log. None
        where reading would block and must not: run `read_job` in the background first."""

    def read_job(self, offset: int, max_bytes: int) -> Callable[[], Buffer]: ...


Done: TypeAlias = Callable[[Message | KafkaError | None], None]
"""A callback for the reply of an operation (None if its outcome has none), or for the error."""
M = TypeVar("M", bound=CoordinatorMachine)

_ANSWERS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def answer_of(error: KafkaError) -> KafkaError:
    """The error for a coordinator's clients that corresponds to an error of the log."""
    code = _ANSWERS.get(error.code)
    return error if code is None else KafkaError(code, error.message)


class _Event:
    """An operation that waits for the high watermark to reach `offset`."""

    __slots__ = ("deadline_ms", "done", "offset", "on_settled", "reply")

    def __init__(
        self, offset: int, deadline_ms: float, outcome: AnyOutcome, done: Done | None
    ) -> None:
        self.offset = offset
        self.deadline_ms = deadline_ms
        self.reply = outcome.reply
        self.on_settled = outcome.on_settled
        self.done = done


class CoordinatorShard(Generic[M]):
    """The coordinator of one partition."""

    __slots__ = (
        "_appending",
        "_batch",
        "_batch_bytes",
        "_batch_events",
        "_made_room",
        "_waiting",
        "_write_timeout_ms",
        "active",
        "codec",
        "committed",
        "failed",
        "latecomers",
        "leader_epoch",
        "loaded",
        "log",
        "machine",
        "next_offset",
        "partition",
        "perform",
        "written",
    )

    def __init__(
        self,
        partition: int,
        log: CoordinatorLog,
        leader_epoch: int,
        machine: M,
        write_timeout_ms: int,
        codec: int,
        perform: Callable[[CoordinatorShard[M], Any], None],
    ) -> None:
        """`perform` carries out an effect of the machine."""
        self.partition = partition
        self.perform = perform
        self.codec = codec
        self.log = log
        self.leader_epoch = leader_epoch
        self.machine = machine
        self.loaded = False
        """Whether everything in the log was replayed."""
        self.active = False
        """Whether all of that is committed too, so that operations are accepted and queries answered.
        Before, an operation could rest on records that are still lost, and a query could miss what was
        acknowledged."""
        self.failed = False
        """Whether the log could not be read. There is no coordinator until it can be read, or another
        leader is elected."""
        self.committed = log.high_watermark
        self.written = self.next_offset = log.log_start_offset
        self.latecomers = Latecomers(write_timeout_ms)
        """The requests that wait until the coordinator is active."""
        self._write_timeout_ms = write_timeout_ms
        self._batch: list[tuple[bytes, bytes | None]] = []
        self._batch_bytes = 0
        self._batch_events: list[_Event] = []
        self._waiting: deque[_Event] = deque()
        self._appending = False
        """Whether an append runs. What it commits at once is handled after it, since a callback may decide
        something."""
        self._made_room = False
        """Whether a batch was written within a decision. The operations that it commits are answered
        afterwards."""

    def __repr__(self) -> str:
        return (
            f"Shard({self.partition}, epoch {self.leader_epoch}, {self.state},"
            f" committed {self.committed},"
            f" written {self.written}, {len(self._waiting)} waiting)"
        )

    @property
    def state(self) -> str:
        """The shard's state by name: loading, catching up, active or failed."""
        if self.failed:
            return "failed"
        if self.active:
            return "active"
        return "catching up" if self.loaded else "loading"

    @property
    def unflushed(self) -> bool:
        return bool(self._batch)

    def describe(self) -> dict[str, object]:
        return {
            "partition": self.partition,
            "leader_epoch": self.leader_epoch,
            "state": self.state,
            "committed": self.committed,
            "written": self.written,
            "waiting": len(self._waiting) + len(self._batch_events) + len(self.latecomers),
        }

    def deadline_ms(self) -> float:
        """The machine's next deadline, or that of the oldest operation that waits."""
        due = self.machine.deadline_ms() if self.active else self.latecomers.deadline_ms()
        return min(due, self._waiting[0].deadline_ms) if self._waiting else due

    def decide(
        self, operation: Callable[[M, Instant], AnyOutcome], done: Done | None, at: Instant
    ) -> None:
        """Run an operation on the newest state and perform what it decides. Raises what the operation
        raises."""
        self.machine.expect(self.next_offset)
        self.apply_outcome(operation(self.machine, at), done, at)

    def apply_outcome(self, outcome: AnyOutcome, done: Done | None, at: Instant) -> None:
        """Perform what an operation decided."""
        refused: KafkaError | None = None
        if outcome.records:
            try:
                self._enqueue(outcome, at)
            except KafkaError as error:
                # The records on which it is based will not be written.
                self.machine.revert_to(self.next_offset)
                refused = error
        event = _Event(self.next_offset, at.now_ms + self._write_timeout_ms, outcome, done)
        waits = refused is None and (bool(self._batch) or self.written > self.committed)
        if waits:
            (self._batch_events if self._batch else self._waiting).append(event)
        try:
            # This event has its place now: a callback may decide something at once, which comes
            # after it.
            if outcome.replies:
                _reply_all(outcome.replies)
            if outcome.effects:
                call_all(partial(self.perform, self, effect) for effect in outcome.effects)
            if not waits:
                self._complete_event(event, refused, at)
        finally:
            if self._made_room:
                self._made_room = False
                self.advance(self.log.high_watermark, at)

    def end_transaction(self, marker: Marker, done: Done, at: Instant) -> None:
        """Write a transaction's marker after everything that was decided before it. `done` gets
        None when the marker is committed, or the error. Raises ``KafkaError`` where the log refuses
        it, and nothing has changed then."""
        error = self._write(at)
        if error is not None:
            raise error
        self._check_undisturbed()
        version = marker.transaction_version
        end = self._append(marker.to_bytes(at.wall_ms), TRUSTED, version)
        self.machine.replay_marker(self.next_offset, marker.producer_id, marker.committed)
        self.written = self.next_offset = end
        self._waiting.append(_Event(end, at.now_ms + self._write_timeout_ms, Outcome(), done))
        self.advance(self.log.high_watermark, at)

    def flush(self, at: Instant) -> KafkaError | None:
        """Append what was decided since the last call, as one batch. If the log refuses it, the decisions
        are undone, their callers get the error, and it is returned."""
        error = self._write(at)
        if error is None:
            self.advance(self.log.high_watermark, at)
        return error

    def _write(self, at: Instant) -> KafkaError | None:
        """Like `flush`, but does not complete the operations that this commits."""
        if not self._batch:
            return None
        events, records = self._batch_events, self._batch
        self._batch, self._batch_events, self._batch_bytes = [], [], 0
        try:
            self._check_undisturbed()
            end = self._append(self._built(records, at.wall_ms))
        except KafkaError as error:
            self._give_up(events, error, at)
            return error
        except Exception as fault:  # a bug here: fail the waiting operations, nothing is written
            self._give_up(events, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(fault)), at)
            raise
        assert end == self.next_offset, f"{self!r}: log ends at {end}, not {self.next_offset}"
        self.written = end
        self._waiting.extend(events)
        return None

    def _give_up(self, events: list[_Event], error: KafkaError, at: Instant) -> None:
        self.machine.revert_to(self.written)
        self.written = self.next_offset = max(self.written, self.log.log_end_offset)
        call_all(partial(self._complete_event, event, error, at) for event in events)

    def _built(self, records: list[tuple[bytes, bytes | None]], wall_ms: int) -> bytes:
        batch = build_batch(records, timestamp_ms=wall_ms, codec=self.codec)
        room = self.log.batch_bytes_max
        if self.codec and len(batch) > room:  # compression did not help
            batch = build_batch(records, timestamp_ms=wall_ms)
        if len(batch) > room and self.codec != Codec.ZSTD:
            # An assignment of 100,000 partitions is a quarter of its size then.
            batch = build_batch(records, timestamp_ms=wall_ms, codec=Codec.ZSTD)
        if len(batch) > room:
            text = f"{len(records)} records of one decision are larger than a batch may be"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        return batch

    def _append(
        self,
        batch: bytes,
        verification: Verification | None = TRUSTED,
        transaction_version: int = 0,
    ) -> int:
        self._appending = True
        try:
            return self.log.append(batch, verification, transaction_version)
        finally:
            self._appending = False

    def _check_undisturbed(self) -> None:
        """Decisions are replayed at the offsets that they are to get. If another writer appended in
        between, those offsets are wrong: the decisions are undone, and the clients try again."""
        if self.log.log_end_offset != self.written:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the log ends at {self.log.log_end_offset}, not at {self.written}",
            )

    def advance(self, high_watermark: int, at: Instant) -> None:
        """The records before `high_watermark` are committed."""
        if self._appending:
            return
        if high_watermark > self.committed:
            self.committed = high_watermark
            self.machine.commit_to(high_watermark)
        try:
            if self._waiting:
                call_all(self._take_committed(at))
        finally:
            if self.loaded and not self.active and self.committed >= self.written:
                self.active = True
                self.machine.expect(self.next_offset)
                outcomes = self.machine.on_loaded(at)
                try:
                    call_all(partial(self.apply_outcome, outcome, None, at) for outcome in outcomes)
                finally:
                    self.latecomers.admit()

    def _take_committed(self, at: Instant) -> Iterator[Callable[[], None]]:
        waiting = self._waiting
        while waiting and waiting[0].offset <= self.committed:
            yield partial(self._complete_event, waiting.popleft(), None, at)

    def begin_again(self, machine: M) -> None:
        """Loading failed: replay the log once more, into an empty `machine`."""
        self.machine, self.failed = machine, False
        machine.commit_to(self.committed)

    def on_loaded(self, at: Instant) -> None:
        """The log was replayed to its end: begin as soon as all of it is committed."""
        self.written = self.next_offset = self.log.log_end_offset
        self.loaded = True
        self.advance(self.log.high_watermark, at)

    def on_deadline(self, at: Instant) -> None:
        """Answer the operations that waited too long, and run the machine's operations that are due."""
        call_all(self._take_late(at))
        self.latecomers.refuse_late(at.now_ms)
        while self.active:
            self.machine.expect(self.next_offset)
            outcome = self.machine.take_due(at)
            if outcome is None:
                return
            self.apply_outcome(outcome, None, at)

    def _take_late(self, at: Instant) -> Iterator[Callable[[], None]]:
        waiting = self._waiting
        while waiting and waiting[0].deadline_ms <= at.now_ms:
            late = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "the records were not replicated in time"
            )
            yield partial(self._complete_event, waiting.popleft(), late, at)

    def resign(self, at: Instant) -> None:
        """Another broker leads the partition: answer all that wait."""
        self.active = self.loaded = False
        lost = KafkaError(ErrorCode.NOT_COORDINATOR, "this broker coordinates no longer")
        events = [*self._waiting, *self._batch_events]
        self._waiting.clear()
        self._batch, self._batch_events, self._batch_bytes = [], [], 0
        try:
            call_all(partial(self._complete_event, event, lost, at) for event in events)
        finally:
            try:
                self.latecomers.refuse_all(lost)
            finally:
                _reply_all(self.machine.on_unloaded())

    def _encoded(self, outcome: AnyOutcome) -> list[tuple[bytes, bytes | None]]:
        try:
            return [self.machine.encode(record) for record in outcome.records]
        except UnsupportedFieldError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    def _write_transactional(
        self, producer: TransactionalWriter, outcome: AnyOutcome, at: Instant
    ) -> None:
        """Append the marker at once, as a batch of its own: the records of others do not wait for it."""
        if self._batch:
            self._make_room(at)
        records = self._encoded(outcome)
        batch = build_batch(
            records,
            timestamp_ms=at.wall_ms,
            codec=self.codec,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transactional=True,
        )
        if len(batch) > self.log.batch_bytes_max:
            text = f"{len(records)} records of one decision are larger than a batch may be"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        self._check_undisturbed()
        end = self._append(batch, producer.verification)
        for record in outcome.records:
            self.machine.replay(self.next_offset, producer.id, record)
            self.next_offset += 1
        assert end == self.next_offset, f"{self!r}: log ends at {end}, not {self.next_offset}"
        self.written = end
        self._made_room = True

    def _enqueue(self, outcome: AnyOutcome, at: Instant) -> None:
        if outcome.producer is not None:
            self._write_transactional(outcome.producer, outcome, at)
            return
        encoded = self._encoded(outcome)
        sizes = [len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in encoded]
        room = self.log.batch_bytes_max - HEADER_SIZE
        if outcome.atomic and self._batch_bytes + sum(sizes) > room:
            self._make_room(at)
        for record, pair, size in zip(outcome.records, encoded, sizes):
            if not outcome.atomic and self._batch_bytes + size > room:
                self._make_room(at)
            if outcome.replay:
                self.machine.replay(self.next_offset, -1, record)
            self._batch.append(pair)
            self._batch_bytes += size
            self.next_offset += 1
        if self._batch_bytes > room:
            # Write it alone: it may be small enough when compressed, and no other operation fails
            # with it.
            self._make_room(at)

    def _make_room(self, at: Instant) -> None:
        """Drop decisions that follow lost records: they are lost, too."""
        error = self._write(at)
        if error is not None:
            raise error
        self._made_room = True

    def _complete_event(self, event: _Event, error: KafkaError | None, at: Instant) -> None:
        try:
            if event.done is not None:
                event.done(event.reply if error is None else answer_of(error))
        finally:
            if event.on_settled is not None:
                self.machine.expect(self.next_offset)
                code = ErrorCode.NONE if error is None else answer_of(error).code
                following = event.on_settled(code, at)
                if self.active:
                    self.apply_outcome(following, None, at)
                else:
                    _reply_all(following.replies)


def _reply_all(replies: Sequence[tuple[Parked, Message]]) -> None:
    call_all(partial(parked.complete, response) for parked, response in replies)
