"""Metrics of a broker's transaction coordinators: `barnabas cluster metrics --broker`.

The coordinator that decided a commit or abort counts it when its record is committed. A coordinator that only
completes a decision which it loaded does not count it again. States are counted on request.

Kafka has metrics of markers and of load times only; these names are ours. ``Aborted`` includes transactions
that timed out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.transaction.states import TransactionState
from barnabas.transaction.transaction import Transaction

COUNTED_STATES: Final[tuple[TransactionState, ...]] = tuple(
    state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
)
"""The states that a record may have."""


class TransactionCounters:
    """Counts since the process began, over all coordinators of the broker."""

    __slots__ = ("aborted", "committed", "timed_out")

    def __init__(self) -> None:
        self.committed = self.aborted = self.timed_out = 0

    def __repr__(self) -> str:
        return (
            f"TransactionCounters({self.committed} committed, {self.aborted} aborted,"
            f" {self.timed_out} of them timed out)"
        )

    def on_decided(self, ending: Transaction, *, timed_out: bool) -> None:
        """The decision to end a transaction is committed."""
        if ending.state is TransactionState.PREPARE_COMMIT:
            self.committed += 1
        else:
            self.aborted += 1
            self.timed_out += timed_out


def by_state(known: Iterable[Transaction]) -> dict[TransactionState, int]:
    """How many transactional ids are in each state."""
    counts: dict[TransactionState, int] = dict.fromkeys(COUNTED_STATES, 0)
    for transaction in known:
        counts[transaction.state] += 1
    return counts


def oldest_start_ms(known: Iterable[Transaction], otherwise_ms: int) -> int:
    """When the oldest open transaction began (date); `otherwise_ms` where none is older."""
    started = [
        transaction.start_ms
        for transaction in known
        if transaction.state is TransactionState.ONGOING and transaction.start_ms >= 0
    ]
    return min([otherwise_ms, *started])
