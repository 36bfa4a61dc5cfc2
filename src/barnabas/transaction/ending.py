"""Decides an EndTxn request by the state of the transaction.

There are two generations (KIP-890). Before transaction.version 2 a producer keeps its epoch, and a retry is
recognized by the state. From version 2 on every end gives a new epoch, and a retry is recognized by the
previous epoch. A producer may then abort a transaction that was not begun, since it does not know whether its
first write arrived.

While a transaction is ending, every request of version 2 is answered CONCURRENT_TRANSACTIONS whatever id and
epoch it names: the producer has its next epoch, and perhaps its next id, before the completion is recorded.
Before version 2 the id and the epoch are compared first.

In the other states the table shows the answers to a retry and to a first request:

======================  ==========================  ==========================
state                   abort, retry / first        commit, retry / first
======================  ==========================  ==========================
Empty                   PRODUCER_FENCED / new       PRODUCER_FENCED / INVALID
CompleteAbort           NONE / new                  INVALID / INVALID
CompleteCommit          INVALID / new               NONE / INVALID
======================  ==========================  ==========================

Source: ``TransactionCoordinator.endTransaction`` and ``endTransactionWithTV1`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.transaction.outcome import NeedsProducerId
from barnabas.transaction.states import AT_REST, TransactionState
from barnabas.transaction.transaction import (
    BUMPS_EPOCH_SINCE,
    CLIENT_EPOCH_MAX,
    NO_PRODUCER_ID,
    Transaction,
    prepared,
)
from barnabas.wire.errors import ErrorCode, KafkaError

_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


class Ending(NamedTuple):
    """A client's request to end a transaction."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    fresh_id: int | None
    """An unused producer id, for a producer that has no epochs left; None until it is needed."""


def decide_end(now: Transaction, wish: Ending, wall_ms: int) -> Transaction | None:
    """The transaction with its end decided; None if it was ended before (a retry). Raises PRODUCER_FENCED,
    INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, and `NeedsProducerId`."""
    if wish.client_version >= BUMPS_EPOCH_SINCE:
        return _decide_with_bump(now, wish, wall_ms)
    if now.producer_id != wish.producer_id:
        raise _no_mapping()
    if now.producer_epoch != wish.producer_epoch:
        raise _fenced(now)
    if now.state is TransactionState.ONGOING:
        return prepared(now, wish.commit, 0, NO_PRODUCER_ID, wall_ms)
    if now.is_ending:
        raise busy()
    if now.state is _COMPLETE[wish.commit]:
        return None
    raise _refused(now, wish)


def _decide_with_bump(now: Transaction, wish: Ending, wall_ms: int) -> Transaction | None:
    if now.is_ending:
        raise busy()
    retry_of_rotation = (
        now.previous_producer_id == wish.producer_id
        and wish.producer_epoch == CLIENT_EPOCH_MAX
        and now.producer_epoch == 0
    )
    retry = retry_of_rotation or now.producer_epoch == wish.producer_epoch + 1
    if now.producer_id != wish.producer_id and not retry_of_rotation:
        raise _no_mapping()
    if not _has_right_epoch(now, wish, retry):
        raise _fenced(now)
    if now.state is TransactionState.ONGOING:
        return _prepare(now, wish, wall_ms)
    if retry:  # in CompleteCommit or CompleteAbort: Empty has no retries
        if now.state is _COMPLETE[wish.commit]:
            return None
        raise _refused(now, wish)
    if not wish.commit and now.state in AT_REST:
        return _prepare(now, wish, wall_ms)
    raise _refused(now, wish)


def _has_right_epoch(now: Transaction, wish: Ending, retry: bool) -> bool:
    is_present = wish.producer_epoch == now.producer_epoch
    if now.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return retry or is_present
    return is_present


def _prepare(now: Transaction, wish: Ending, wall_ms: int) -> Transaction:
    return prepared(now, wish.commit, wish.client_version, next_id(now, wish.fresh_id), wall_ms)


def next_id(now: Transaction, fresh_id: int | None) -> int:
    """The producer id that replaces one without epochs left; NO_PRODUCER_ID if epochs are left. Raises
    `NeedsProducerId`."""
    if not now.is_exhausted:
        return NO_PRODUCER_ID
    if fresh_id is None:
        raise NeedsProducerId
    return fresh_id


def _refused(now: Transaction, wish: Ending) -> KafkaError:
    wanted = "commit" if wish.commit else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"there is nothing to {wanted} in the state {now.state.label}"
    )


def busy() -> KafkaError:
    """The answer while the markers of a transaction are being written."""
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is being ended")


def _no_mapping() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id has another producer id"
    )


def _fenced(now: Transaction) -> KafkaError:
    return KafkaError(ErrorCode.PRODUCER_FENCED, f"the producer's epoch is {now.producer_epoch}")
