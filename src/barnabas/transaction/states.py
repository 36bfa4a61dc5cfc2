"""The states of a transactional id, and the transitions between them.

Source: ``TransactionState`` of Apache Kafka 4.3; KIP-98; KIP-890 for aborts of transactions that were not
begun.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """Numbers as in ``__transaction_state``."""

    EMPTY = 0
    """A producer id was given; no transaction yet."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The commit is decided; its markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """All markers are written."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired. Never in a record: a tombstone is written."""
    PREPARE_EPOCH_FENCE = 7
    """The producer is being fenced. Never in a record: the abort that follows is written at once."""

    @property
    def label(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return LABELS[self]


_S = TransactionState
LABELS: Final[dict[TransactionState, str]] = {
    _S.EMPTY: "Empty",
    _S.ONGOING: "Ongoing",
    _S.PREPARE_COMMIT: "PrepareCommit",
    _S.PREPARE_ABORT: "PrepareAbort",
    _S.COMPLETE_COMMIT: "CompleteCommit",
    _S.COMPLETE_ABORT: "CompleteAbort",
    _S.DEAD: "Dead",
    _S.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
BY_LABEL: Final = {label: state for state, label in LABELS.items()}

AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""States without a transaction that is open or ending."""
ENDING: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})

MAY_COME_FROM: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: AT_REST,
    _S.ONGOING: AT_REST | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: AT_REST,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""The states from which each state may come."""


def check_move(before: TransactionState, after: TransactionState) -> None:
    """Raises AssertionError for a transition that is not in the table."""
    if before not in MAY_COME_FROM[after]:
        raise AssertionError(f"no transaction moves from {before.label} to {after.label}")
