"""Offsets of transactions are judged by what they stand for, also where they expired."""

from __future__ import annotations

import pytest

from barnabas.sim.history import Violation
from barnabas.sim.ledger import Ledger


def judge(spans: list[tuple[int, int]], committed: int, *, expired: int = 0) -> None:
    """Transactions of (first, count), one after the other and all of them committed."""
    ledger = Ledger()
    if expired:
        ledger.expired = {"tx": expired}
    final: dict[int, bytes] = {}
    for first, count in spans:
        attempt = ledger.begin("tx", first, count, with_offsets=True)
        final[len(final)] = ledger.on_sent(attempt, 0)
        attempt.is_asked = attempt.is_committed = True
    ledger.check_final({0: final}, {"tx": committed})


def test_offsets_that_fit() -> None:
    judge([(0, 2), (2, 1)], 3)


@pytest.mark.parametrize("expired", [0, 1])
def test_records_that_are_skipped_or_repeated_do_not_fit(expired: int) -> None:
    for spans in ([(0, 2), (3, 1)], [(0, 2), (1, 3)]):
        with pytest.raises(Violation, match="do not fit"):
            judge(spans, 4, expired=expired)


def test_transactions_start_again_as_often_as_the_offset_expired() -> None:
    spans = [(0, 2), (2, 1), (0, 1), (1, 1)]
    judge(spans, 2, expired=1)
    judge(spans, 2, expired=2)
    judge(spans, 0, expired=2)
    for committed, expired in [(2, 0), (0, 1), (3, 2)]:
        with pytest.raises(Violation, match="do not fit"):
            judge(spans, committed, expired=expired)
