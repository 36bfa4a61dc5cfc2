"""What the transaction coordinators of a broker count: `barnabas cluster metrics --broker`.

Ends are counted by the coordinator that decided them, when their record is committed: one that a coordinator
finds in its log and only completes is not counted a second time. States are counted on request.

Kafka has metrics of the markers and of the time that loading takes; the names here are its own, `Aborted`
includes those whose time was over.
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
"""The states that a record may say."""


class TransactionCounters:
    """Since the process began, over all coordinators that the broker had."""

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
