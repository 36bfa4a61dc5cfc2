"""Finds open transactions that have timed out.

As in Kafka a transaction times out by the wall clock: its start time plus its time-out. The coordinator that
began it may have had a wrong clock, so a transaction also times out if this coordinator finds it open for the
whole time-out by its own monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.operation import Instant
from barnabas.transaction.states import TransactionState
from barnabas.transaction.transaction import Transaction


class _Found(NamedTuple):
    which: tuple[int, int, int]
    """Producer id, producer epoch and start time, which identify a transaction of a transactional id."""
    since_ms: float


class OpenTransactions:
    """The transactions that the last check found open, and when each was first found."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}

    def find_overdue(self, known: Iterable[tuple[str, Transaction]], at: Instant) -> list[str]:
        """The transactional ids whose transactions have timed out."""
        before, self._found = self._found, {}
        overdue = []
        for name, transaction in known:
            if _may_be_over(transaction):
                which = _which(transaction)
                found = before.get(name)
                self._found[name] = (
                    found
                    if found is not None and found.which == which
                    else _Found(which, at.now_ms)
                )
                if self.is_overdue(name, transaction, at):
                    overdue.append(name)
        return overdue

    def is_overdue(self, name: str, transaction: Transaction, at: Instant) -> bool:
        """Whether a transaction has timed out, given the last check."""
        if not _may_be_over(transaction):
            return False
        found = self._found.get(name)
        long_open = (
            found is not None
            and found.which == _which(transaction)
            and found.since_ms + transaction.timeout_ms < at.now_ms
        )
        return long_open or transaction.start_ms + transaction.timeout_ms < at.wall_ms


def _may_be_over(transaction: Transaction) -> bool:
    return transaction.state is TransactionState.ONGOING and not transaction.is_two_phase


def _which(transaction: Transaction) -> tuple[int, int, int]:
    return transaction.producer_id, transaction.producer_epoch, transaction.start_ms
