"""Where a follower cuts its log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.replication.follower import OutOfRange, resolve_out_of_range, truncation_offset


@pytest.mark.parametrize(
    ("leader", "own", "log_end", "expected"),
    [
        ((1, 10), (1, 12), 12, 10),  # both know the epoch: the shorter end
        ((1, 10), (1, 8), 9, 8),
        ((3, 10), (2, 7), 12, 7),  # the leader's epoch is unknown here: the one below
        ((1, 10), (-1, -1), 12, 10),  # nothing known here
        ((1, 20), (-1, -1), 12, 12),
        ((5, -1), (4, 7), 12, 9),  # the leader cannot say: where the fetch was
    ],
)
def test_truncation(
    leader: tuple[int, int], own: tuple[int, int], log_end: int, expected: int
) -> None:
    assert truncation_offset(*leader, *own, log_end, fetch_offset=9) == expected


Epochs = list[tuple[int, int]]


def end_of(epochs: Epochs, epoch: int, log_end: int) -> tuple[int, int]:
    """Largest known epoch not above `epoch`, and its end; where all are above, the first start."""
    best = (epoch, epochs[0][1])
    for at, (known, _) in enumerate(epochs):
        if known <= epoch:
            best = (known, epochs[at + 1][1] if at + 1 < len(epochs) else log_end)
    return best


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs (the epoch of each record) that share a beginning and part afterwards, in epochs of
    which no two leaders were one."""
    shared = draw(st.lists(st.integers(0, 3), max_size=6))
    shared.sort()
    base = shared[-1] if shared else 0
    mine = sorted(draw(st.lists(st.sampled_from([base + 1, base + 3, base + 5]), max_size=6)))
    theirs = sorted(draw(st.lists(st.sampled_from([base + 2, base + 4, base + 6]), max_size=6)))
    return shared + mine, shared + theirs


def epochs_of(log: list[int]) -> Epochs:
    return [(e, log.index(e)) for e in sorted(set(log))]


@pytest.mark.slow
@given(histories())
def test_rounds_of_truncation_end_at_the_common_beginning(
    logs: tuple[list[int], list[int]],
) -> None:
    follower, leader = logs
    common = 0
    while common < min(len(follower), len(leader)) and follower[common] == leader[common]:
        common += 1
    for _ in range(20):
        if not follower:
            break
        # The present leader's own epoch begins at its log's end.
        known = [*epochs_of(leader), (99, len(leader))]
        epoch, end = end_of(known, follower[-1], len(leader))
        if epoch == follower[-1] and end >= len(follower):
            break
        own = end_of(epochs_of(follower), epoch, len(follower))
        cut = truncation_offset(epoch, end, *own, len(follower), len(follower))
        assert cut >= common, "it cuts what both have"
        assert cut < len(follower), "no progress"
        follower = follower[:cut]
    assert follower == leader[: len(follower)]


def test_out_of_range() -> None:
    assert resolve_out_of_range(10, 10, leader_start=0, leader_end=7) == OutOfRange(7, None)
    assert resolve_out_of_range(10, 10, leader_start=15, leader_end=20) == OutOfRange(None, 15)
    assert resolve_out_of_range(10, 10, leader_start=5, leader_end=20) == OutOfRange(None, None)
    # From 8 on epochs without a leader.
    assert resolve_out_of_range(10, 8, leader_start=5, leader_end=20) == OutOfRange(8, None)
    assert resolve_out_of_range(10, 8, leader_start=5, leader_end=7) == OutOfRange(7, None)
    assert resolve_out_of_range(10, 8, leader_start=9, leader_end=20) == OutOfRange(None, 9)
