"""Answers ListTransactions and DescribeTransactions from committed state.

Source: ``TransactionStateManager.listTransactionStates`` and
``TransactionCoordinator.handleDescribeTransactions`` of Apache Kafka 4.3; KIP-664, KIP-994.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.states import BY_LABEL, TransactionState
from barnabas.transaction.transaction import Transaction
from barnabas.types import by_topic
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import describe_transactions_response as described
from barnabas.wire.messages import list_transactions_response as listed


class Filters(NamedTuple):
    """The filters of ListTransactions; one that is empty or None filters nothing."""

    states: Collection[TransactionState] | None = None
    """None: all."""
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1
    matches: Callable[[str], bool] | None = None

    def selects(self, transactional_id: str, known: Transaction, wall_ms: int) -> bool:
        """Whether the answer has this transaction."""
        return (
            (self.states is None or known.state in self.states)
            and (not self.producer_ids or known.producer_id in self.producer_ids)
            and (self.longer_than_ms < 0 or wall_ms - known.start_ms > self.longer_than_ms)
            and (self.matches is None or self.matches(transactional_id))
        )


def known_states(labels: Collection[str]) -> tuple[list[TransactionState] | None, list[str]]:
    """(the states with these names, the unknown names). Without names: (None, []), which means all states."""
    if not labels:
        return None, []
    unknown = [label for label in labels if label not in BY_LABEL]
    return [BY_LABEL[label] for label in labels if label in BY_LABEL], unknown


def list_transactions(
    machine: TransactionMachine, filters: Filters, wall_ms: int
) -> list[listed.TransactionState]:
    """The transactions of one partition that the filters select."""
    return [
        listed.TransactionState(
            transactional_id=transactional_id,
            producer_id=known.producer_id,
            transaction_state=known.state.label,
        )
        for transactional_id, known in machine.ids.committed_items()
        if filters.selects(transactional_id, known, wall_ms)
    ]


def describe_transaction(
    machine: TransactionMachine, transactional_id: str
) -> described.TransactionState:
    """Describe one transactional id; TRANSACTIONAL_ID_NOT_FOUND if no producer has used it."""
    known = machine.ids.committed(transactional_id)
    if known is None:
        return described.TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    return described.TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            described.TopicData(topic=name, partitions=partitions)
            for name, partitions in by_topic(known.partitions).items()
        ],
    )
