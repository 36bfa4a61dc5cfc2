"""One transactional id: its producer, state and partitions, and the steps between values.

A :class:`Transaction` is immutable. Each function returns the value after one step, and checks the table of
transitions. Producer epochs end at 32767; a client gets at most 32766, so that the coordinator can always
fence it once more.

Source: ``TransactionMetadata`` of Apache Kafka 4.3; KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.transaction.states import AT_REST, ENDING, TransactionState, check_move
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 32_767
"""The last epoch, used by the coordinator only; no client gets it."""
CLIENT_EPOCH_MAX = EPOCH_MAX - 1
TWO_PHASE_TIMEOUT_MS = 2**31 - 1
"""The time-out of a transaction in a two-phase commit, which means none (KIP-939)."""
BUMPS_EPOCH_SINCE = 2
"""The level of ``transaction.version`` from which on every end gives the producer a new epoch (KIP-890)."""

Partitions = Mapping[TopicPartition, None]
"""An ordered set; never changed in place."""


class Transaction(NamedTuple):
    """The coordinator's state of one transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: Partitions = {}
    start_ms: int = NO_TIME
    """When the open transaction began, in ms since 1970."""
    update_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last step; a retry may still name it."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after this transaction, if the current one has no epochs left."""
    last_epoch: int = NO_EPOCH
    """The producer's epoch before the last bump that it requested; not in the log."""
    client_version: int = 0
    """The ``transaction.version`` that the client uses."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no further epoch can be given to a client."""
        return self.producer_epoch >= CLIENT_EPOCH_MAX

    @property
    def is_ending(self) -> bool:
        return self.state in ENDING

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    def validate(self, name: str) -> None:
        """Check the invariants of the transactional id `name`. Raises AssertionError."""
        assert NO_EPOCH <= self.producer_epoch <= EPOCH_MAX, f"{name}: {self}"
        if self.state is TransactionState.ONGOING:
            assert self.partitions, f"{name} is open without partitions: {self}"
        if self.state in AT_REST:
            assert not self.partitions, f"{name} is at rest with partitions: {self}"
        no_record = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
        assert self.state not in no_record, f"{name}: {self}"

    def describe(self) -> dict[str, object]:
        return {
            "producer": f"{self.producer_id}/{self.producer_epoch}",
            "state": self.state.label,
            "partitions": [str(place) for place in self.partitions],
        }


def created(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id; `with_next_epoch` gives its first epoch."""
    return Transaction(producer_id, NO_EPOCH, timeout_ms, update_ms=now_ms)


def _moved(before: Transaction, state: TransactionState, **changes: object) -> Transaction:
    check_move(before.state, state)
    changes.setdefault("previous_producer_id", before.producer_id)
    return before._replace(state=state, **changes)  # type: ignore[arg-type]


def with_next_epoch(
    before: Transaction, timeout_ms: int, expected_epoch: int | None, now_ms: int
) -> Transaction:
    """The step of InitProducerId. `expected_epoch` is the epoch that the producer names (KIP-360). Raises
    PRODUCER_FENCED if another producer has bumped it."""
    epoch = before.producer_epoch
    if expected_epoch is None:
        epoch, last = epoch + 1, NO_EPOCH
    elif epoch in (NO_EPOCH, expected_epoch):
        epoch, last = epoch + 1, epoch
    elif expected_epoch == before.last_epoch:  # a retry: the producer got no answer
        last = before.last_epoch
    else:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED, f"the producer's epoch is {epoch}, not {expected_epoch}"
        )
    return _moved(
        before,
        TransactionState.EMPTY,
        producer_epoch=epoch,
        last_epoch=last,
        timeout_ms=timeout_ms,
        partitions={},
        start_ms=NO_TIME,
        update_ms=now_ms,
    )


def with_new_producer_id(
    before: Transaction, producer_id: int, timeout_ms: int, keep_last: bool, now_ms: int
) -> Transaction:
    """The step of InitProducerId for a producer id without epochs left. `keep_last`: the producer named its
    epoch, and may retry."""
    return _moved(
        before,
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=0,
        last_epoch=before.producer_epoch if keep_last else NO_EPOCH,
        timeout_ms=timeout_ms,
        partitions={},
        start_ms=NO_TIME,
        update_ms=now_ms,
    )


def with_partitions(
    before: Transaction, added: Partitions, client_version: int, now_ms: int
) -> Transaction:
    """Add partitions to the transaction, which begins with the first ones."""
    is_open = before.state is TransactionState.ONGOING
    return _moved(
        before,
        TransactionState.ONGOING,
        partitions={**before.partitions, **added},
        start_ms=before.start_ms if is_open else now_ms,
        update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    before: Transaction, commit: bool, client_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """Decide a commit or abort. From version 2 on the producer gets its next epoch with it."""
    epoch, last = before.producer_epoch, before.last_epoch
    if client_version >= BUMPS_EPOCH_SINCE:
        epoch, last = min(epoch + 1, EPOCH_MAX), epoch
    begun = before.state is TransactionState.ONGOING
    return _moved(
        before,
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_epoch=last,
        next_producer_id=next_producer_id,
        start_ms=before.start_ms if begun else now_ms,
        update_ms=now_ms,
        client_version=client_version,
    )


def fenced(
    before: Transaction, server_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """Abort an open transaction and fence its producer's epoch: another producer initialized itself, or the
    transaction timed out."""
    check_move(before.state, TransactionState.PREPARE_EPOCH_FENCE)
    if server_version >= BUMPS_EPOCH_SINCE:
        return prepared(before, False, server_version, next_producer_id, now_ms)
    epoch = min(before.producer_epoch + 1, EPOCH_MAX)
    bumped = before._replace(producer_epoch=epoch, last_epoch=NO_EPOCH)
    return prepared(bumped, False, 0, NO_PRODUCER_ID, now_ms)


def completed(before: Transaction, now_ms: int) -> Transaction:
    """The step when all markers are written."""
    commit = before.state is TransactionState.PREPARE_COMMIT
    producer_id, epoch = producer_after(before)
    return _moved(
        before,
        TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions={},
        update_ms=now_ms,
    )


def producer_after(ending: Transaction) -> tuple[int, int]:
    """(producer id, producer epoch) with which the producer continues after `ending`."""
    if ending.client_version >= BUMPS_EPOCH_SINCE and ending.next_producer_id != NO_PRODUCER_ID:
        return ending.next_producer_id, 0
    return ending.producer_id, ending.producer_epoch
