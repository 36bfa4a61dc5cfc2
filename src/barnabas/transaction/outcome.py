"""The outcome of an operation of the transaction machine: records, reply, effects, and a continuation.

Effects are performed by the coordinator: send markers, get a producer id. Their results come back as
operations.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.operation import Outcome
from barnabas.transaction.record_codec import TransactionRecord
from barnabas.transaction.states import TransactionState
from barnabas.transaction.transaction import Transaction
from barnabas.wire.errors import ErrorCode, KafkaError


class SendMarkers(NamedTuple):
    """The decision to end a transaction is committed: write its markers, then call `complete`."""

    transactional_id: str
    ending: Transaction

    @property
    def commit(self) -> bool:
        return self.ending.state is TransactionState.PREPARE_COMMIT


class GetProducerId(NamedTuple):
    """A transaction that timed out is of a producer without epochs left: get a new producer id, then call
    `abort_overdue` again."""

    transactional_id: str


class Completed(NamedTuple):
    """The transaction's last record was decided: requests that wait for its end may continue."""

    transactional_id: str


Effect: TypeAlias = "SendMarkers | GetProducerId | Completed"


class NeedsProducerId(KafkaError):
    """The operation needs an unused producer id: get one and call it again with that."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a producer id is needed first")


class TransactionOutcome(Outcome[TransactionRecord, Effect]):
    """The outcome of an operation on a transaction."""

    __slots__ = ()
