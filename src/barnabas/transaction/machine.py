"""The transaction coordinator of one partition of ``__transaction_state``, as a machine.

An operation gets a request's fields and the time, and returns an outcome. An error is the outcome's reply,
given when all records that it is based on are committed. Queries (:mod:`barnabas.transaction.queries`) read
committed state. The coordinator that drives the machine performs the effects and passes their results to
operations.

Invariants: a step follows the table of transitions. Markers are requested only when the decision is
committed, and until they are written the transactional id takes no other step. If a record of the id is not
replicated yet, Kafka answers CONCURRENT_TRANSACTIONS; this machine decides on the newest state, and the
answer waits for both records.

Source: ``TransactionCoordinator`` and ``TransactionStateManager`` of Apache Kafka 4.3.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from barnabas.config.settings import TransactionSettings
from barnabas.operation import Instant
from barnabas.timeline import Journal, TimelineMap
from barnabas.transaction.ending import Ending, busy, decide_end, next_id
from barnabas.transaction.metrics import TransactionCounters
from barnabas.transaction.outcome import (
    Completed,
    GetProducerId,
    NeedsProducerId,
    SendMarkers,
    TransactionOutcome,
)
from barnabas.transaction.overdue import OpenTransactions
from barnabas.transaction.record_codec import (
    TAGS_SINCE,
    TransactionRecord,
    decode_record,
    encode_record,
)
from barnabas.transaction.states import AT_REST, TransactionState
from barnabas.transaction.transaction import (
    BUMPS_EPOCH_SINCE,
    CLIENT_EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TWO_PHASE_TIMEOUT_MS,
    Partitions,
    Transaction,
    completed,
    created,
    fenced,
    producer_after,
    with_new_producer_id,
    with_next_epoch,
    with_partitions,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.end_txn_response import EndTxnResponse
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message


class TransactionMachine:
    """All transactional ids of one partition."""

    __slots__ = (
        "_abort_ms",
        "_counters",
        "_expire_ms",
        "_journal",
        "_level",
        "_open",
        "_overdue",
        "ids",
        "settings",
    )

    def __init__(
        self,
        settings: TransactionSettings,
        level: Callable[[], int],
        counters: TransactionCounters | None = None,
    ) -> None:
        """`level` returns the cluster's ``transaction.version``; `counters` are the broker's."""
        self.settings = settings
        self._counters = counters or TransactionCounters()
        self._level = level
        self._journal = Journal()
        self.ids: TimelineMap[str, Transaction] = TimelineMap(self._journal)
        self._abort_ms = self._expire_ms = math.inf
        self._overdue: deque[str] = deque()
        """Transactional ids whose transactions timed out and are not aborted yet."""
        self._open = OpenTransactions()

    def __repr__(self) -> str:
        return f"TransactionMachine({len(self.ids)} ids)"

    def describe(self) -> dict[str, object]:
        """The machine's state, for tools and failing tests."""
        return {name: transaction.describe() for name, transaction in self.ids.items()}

    def validate(self) -> None:
        """Check invariant 10 of docs/invariants.md in this state. Raises AssertionError."""
        for name, known in self.ids.items():
            known.validate(name)

    # Operations

    def init_producer_id(
        self, request: InitProducerIdRequest, fresh_id: int | None, at: Instant
    ) -> TransactionOutcome:
        """InitProducerId: give a producer the next epoch of its transactional id, and abort an open
        transaction. Raises `NeedsProducerId`."""
        try:
            return self._init(request, fresh_id, at)
        except NeedsProducerId:
            raise
        except KafkaError as error:
            return TransactionOutcome(reply=error)

    def _init(
        self, request: InitProducerIdRequest, fresh_id: int | None, at: Instant
    ) -> TransactionOutcome:
        transactional_id = request.transactional_id
        assert transactional_id
        timeout_ms = _timeout_ms(request, self.settings)
        known = self.ids.get(transactional_id)
        if known is None:
            if fresh_id is None:
                raise NeedsProducerId
            known = created(fresh_id, timeout_ms, at.wall_ms)
        expected = None if request.producer_id == NO_PRODUCER_ID else request.producer_epoch
        if known.is_ending:  # its producer id may be about to change
            raise busy()
        if expected is not None:
            _check_known(known, request.producer_id, expected)
        if known.state is TransactionState.ONGOING:
            return self._fence(transactional_id, known, fresh_id, at, reply=busy())
        if known.is_exhausted and expected in (None, known.producer_epoch):
            if fresh_id is None:
                raise NeedsProducerId
            following = with_new_producer_id(
                known, fresh_id, timeout_ms, expected is not None, at.wall_ms
            )
        else:
            following = with_next_epoch(known, timeout_ms, expected, at.wall_ms)
        return TransactionOutcome(
            [record_of(self._level(), transactional_id, following)],
            InitProducerIdResponse(
                producer_id=following.producer_id, producer_epoch=following.producer_epoch
            ),
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        client_version: int,
        at: Instant,
    ) -> TransactionOutcome:
        """Add `partitions` to the producer's transaction, which begins if none is open. On success the
        outcome has no reply."""
        try:
            known = self._known(transactional_id)
            if known.is_ending:  # its producer may have its next id or epoch already
                raise busy()
            _check_producer(known, producer_id, producer_epoch)
        except KafkaError as error:
            return TransactionOutcome(reply=error)
        is_open = known.state is TransactionState.ONGOING
        if is_open and all(place in known.partitions for place in partitions):
            return TransactionOutcome()
        following = with_partitions(known, partitions, client_version, at.wall_ms)
        return TransactionOutcome([record_of(self._level(), transactional_id, following)])

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Partitions
    ) -> TransactionOutcome:
        """Check which of `partitions` belong to the producer's open transaction: the reply has NONE for
        these, TRANSACTION_ABORTABLE for the others. The id and the epoch are compared in every state: a
        producer before version 2 keeps them."""
        try:
            known = self._known(transactional_id)
            _check_producer(known, producer_id, producer_epoch)
            if known.is_ending:
                raise busy()
        except KafkaError as error:
            return TransactionOutcome(reply=error)
        topics: dict[str, AddPartitionsToTxnTopicResult] = {}
        for place in partitions:
            if place.topic not in topics:
                topics[place.topic] = AddPartitionsToTxnTopicResult(
                    name=place.topic, results_by_partition=[]
                )
            is_in = place in known.partitions
            topics[place.topic].results_by_partition.append(  # type: ignore[attr-defined]
                AddPartitionsToTxnPartitionResult(
                    partition_index=place.partition,
                    partition_error_code=0 if is_in else ErrorCode.TRANSACTION_ABORTABLE,
                )
            )
        return TransactionOutcome(
            reply=AddPartitionsToTxnResult(
                transactional_id=transactional_id, topic_results=list(topics.values())
            )
        )

    def end_transaction(
        self, transactional_id: str, wish: Ending, at: Instant
    ) -> TransactionOutcome:
        """EndTxn: a client commits or aborts. Raises `NeedsProducerId`."""
        try:
            known = self._known(transactional_id)
            following = decide_end(known, wish, at.wall_ms)
        except NeedsProducerId:
            raise
        except KafkaError as error:
            return TransactionOutcome(reply=error)
        bumps = wish.client_version >= BUMPS_EPOCH_SINCE
        if following is None:
            given = (known.producer_id, known.producer_epoch)
            return TransactionOutcome(reply=_ended(given if bumps else None))
        return self._prepare(
            transactional_id, following, _ended(producer_after(following) if bumps else None)
        )

    def abort_overdue(
        self, transactional_id: str, fresh_id: int | None, at: Instant
    ) -> TransactionOutcome:
        """Abort an open transaction that timed out, unless it was ended meanwhile."""
        known = self.ids.get(transactional_id)
        if known is None or not self._open.is_overdue(transactional_id, known, at):
            return TransactionOutcome()
        try:
            return self._fence(transactional_id, known, fresh_id, at, reply=None, timed_out=True)
        except NeedsProducerId:
            return TransactionOutcome(effects=[GetProducerId(transactional_id)])

    def complete(
        self, transactional_id: str, ending: Transaction, at: Instant
    ) -> TransactionOutcome:
        """All markers of `ending` (as in `SendMarkers`) are written. A second call has no effect, even if the
        next transaction of the same producer is ending by then."""
        if self.ids.get(transactional_id) is not ending:
            return TransactionOutcome()
        record = record_of(self._level(), transactional_id, completed(ending, at.wall_ms))
        return TransactionOutcome([record], effects=[Completed(transactional_id)])

    # What operations have in common

    def _known(self, transactional_id: str) -> Transaction:
        known = self.ids.get(transactional_id)
        if known is None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id has no producer id"
            )
        return known

    def _fence(
        self,
        transactional_id: str,
        known: Transaction,
        fresh_id: int | None,
        at: Instant,
        reply: KafkaError | None,
        timed_out: bool = False,
    ) -> TransactionOutcome:
        level = self._level()
        following_id = next_id(known, fresh_id) if level >= BUMPS_EPOCH_SINCE else NO_PRODUCER_ID
        following = fenced(known, level, following_id, at.wall_ms)
        return self._prepare(transactional_id, following, reply, timed_out)

    def _prepare(
        self,
        transactional_id: str,
        ending: Transaction,
        reply: Message | KafkaError | None,
        timed_out: bool = False,
    ) -> TransactionOutcome:
        return TransactionOutcome(
            [record_of(self._level(), transactional_id, ending)],
            reply,
            partial(self._on_prepared, transactional_id, ending, timed_out),
        )

    def _on_prepared(
        self,
        transactional_id: str,
        ending: Transaction,
        timed_out: bool,
        code: ErrorCode,
        at: Instant,
    ) -> TransactionOutcome:
        if self.ids.get(transactional_id) is not ending:
            return TransactionOutcome()  # the append failed and was undone
        if code:  # not replicated in time, but not undone: it may still be committed
            again = partial(self._on_prepared, transactional_id, ending, timed_out)
            return TransactionOutcome(on_settled=again)
        self._counters.on_decided(ending, timed_out=timed_out)
        return self._continue_ending(transactional_id, ending, at)

    def _continue_ending(
        self, transactional_id: str, ending: Transaction, at: Instant
    ) -> TransactionOutcome:
        """The decision is committed: request the markers, or complete a transaction without partitions."""
        if not ending.partitions:
            return self.complete(transactional_id, ending, at)
        return TransactionOutcome(effects=[SendMarkers(transactional_id, ending)])

    # Records

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def expect(self, next_offset: int) -> None:
        """The next decided record will have `next_offset`."""
        self._journal.offset = next_offset

    def replay(self, offset: int, producer_id: int, record: TransactionRecord) -> None:
        """Apply one record."""
        self._journal.offset = offset
        if record.transaction is None:
            self.ids.remove(record.transactional_id)
        else:
            self.ids.put(record.transactional_id, record.transaction)

    def replay_marker(self, offset: int, producer_id: int, committed: bool) -> None:
        """Do nothing: this topic has no transactional records."""

    def commit_to(self, offset: int) -> None:
        self._journal.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        self._journal.revert_to(offset)

    # Beginning, time, end

    def on_loaded(self, at: Instant) -> list[TransactionOutcome]:
        """Continue every commit or abort that was decided before the load."""
        self._abort_ms = at.now_ms + self.settings.abort_check_interval_ms
        self._expire_ms = at.now_ms + self.settings.expire_check_interval_ms
        return [
            self._continue_ending(name, known, at)
            for name, known in self.ids.items()
            if known.is_ending
        ]

    def on_unloaded(self) -> Sequence[tuple[Parked, Message]]:
        """No request waits within this machine."""
        return ()

    def deadline_ms(self) -> float:
        return -math.inf if self._overdue else min(self._abort_ms, self._expire_ms)

    def take_due(self, at: Instant) -> TransactionOutcome | None:
        """Handle one deadline that has passed; None if there is none."""
        if at.now_ms >= self._abort_ms:
            self._abort_ms = at.now_ms + self.settings.abort_check_interval_ms
            self._overdue.extend(self._open.find_overdue(self.ids.items(), at))
        if self._overdue:
            return self.abort_overdue(self._overdue.popleft(), None, at)
        if at.now_ms >= self._expire_ms:
            self._expire_ms = at.now_ms + self.settings.expire_check_interval_ms
            return self._expire(at)
        return None

    def _expire(self, at: Instant) -> TransactionOutcome:
        until_ms = at.wall_ms - self.settings.transactional_id_expiration_ms
        return TransactionOutcome(
            [
                record_of(self._level(), name, None)
                for name, known in self.ids.items()
                if known.state in AT_REST and known.update_ms <= until_ms
            ],
            atomic=False,
        )


def _timeout_ms(request: InitProducerIdRequest, settings: TransactionSettings) -> int:
    if request.enable2_pc:
        if not settings.two_phase_commit:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "transaction.two.phase.commit.enable is off",
            )
        return TWO_PHASE_TIMEOUT_MS
    timeout_ms: int = request.transaction_timeout_ms
    if not 0 < timeout_ms <= settings.timeout_ms_max:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"{timeout_ms} ms is not within 1 and transaction.max.timeout.ms"
            f" ({settings.timeout_ms_max} ms)",
        )
    return timeout_ms


def _check_producer(known: Transaction, producer_id: int, producer_epoch: int) -> None:
    """Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
    if known.producer_id != producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id has the producer id {known.producer_id}",
        )
    if known.producer_epoch != producer_epoch:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED, f"the producer's epoch is {known.producer_epoch}"
        )


def _check_known(known: Transaction, producer_id: int, epoch: int) -> None:
    """Check that a producer which names its id and epoch may continue: they are current, or it missed the
    answer with its new id, or the coordinator has forgotten the transactional id. Raises PRODUCER_FENCED."""
    if known.producer_epoch == NO_EPOCH or known.producer_id == producer_id:
        return
    if known.previous_producer_id == producer_id and epoch >= CLIENT_EPOCH_MAX:
        return
    raise KafkaError(
        ErrorCode.PRODUCER_FENCED, f"the transactional id has the producer id {known.producer_id}"
    )


def _ended(producer: tuple[int, int] | None) -> EndTxnResponse:
    if producer is None:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=producer[0], producer_epoch=producer[1])


def record_of(
    level: int, transactional_id: str, transaction: Transaction | None
) -> TransactionRecord:
    """The record of `transaction` (None: a tombstone) in the form of feature level `level`."""
    return TransactionRecord(transactional_id, transaction, min(level, TAGS_SINCE))
