"""A member acquires about what it wants, whatever offsets a batch claims."""

from __future__ import annotations

import pytest

from barnabas.broker.share.share_partition import (
    OVERSHOOT_MAX,
    RECORD_LOCKS_MAX,
    Acquired,
    ShareLimits,
    SharePartition,
    Wanted,
)
from barnabas.share.delivery import StateBatch

CLAIMED = 150_000_000
LIMITS = ShareLimits(deliveries_max=5, in_flight_max=2_000, lock_ms=50, renews=True)


def acquired(machine: SharePartition, wanted: Wanted, last: int) -> list[Acquired]:
    return machine.acquire("m", wanted, 0, [(0, last)], LIMITS, 0.0)


def test_a_batch_is_acquired_whole_where_little_more_is_acquired_by_that() -> None:
    last = 499 + OVERSHOOT_MAX
    assert acquired(SharePartition(0, 1, 0), Wanted(500), last) == [Acquired(0, last, 1)]


def test_a_batch_that_claims_many_offsets_is_acquired_in_parts() -> None:
    found = acquired(SharePartition(0, 1, 0), Wanted(500), CLAIMED)
    assert found == [Acquired(0, 499, 1)]


@pytest.mark.parametrize("strict", [False, True])
def test_many_available_offsets_are_acquired_in_parts(strict: bool) -> None:
    machine = SharePartition(0, 1, 0, [StateBatch(0, CLAIMED, 0, 1)])
    [found] = acquired(machine, Wanted(2**31 - 1, strict=strict), CLAIMED)
    assert found == Acquired(0, RECORD_LOCKS_MAX - 1, 2)


@pytest.mark.parametrize("size", [-5, -1, 0])
def test_a_batch_size_that_is_no_size_cuts_nothing(size: int) -> None:
    batches = [(0, 9), (10, 19), (20, 29)]
    machine = SharePartition(0, 1, 0)
    found = machine.acquire("m", Wanted(30, batch_size=size), 0, batches, LIMITS, 0.0)
    assert found == [Acquired(0, 29, 1)]
