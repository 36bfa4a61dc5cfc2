"""Leader epochs as batches say them, where one of the batches rotted."""

from __future__ import annotations

import pytest

from barnabas.log.state.epoch_runs import EpochRuns

ROSE = 1 << 26


@pytest.mark.parametrize(
    ("epochs", "found"),
    [
        ([], []),
        ([3], [(3, 0)]),
        ([3, 3, 5, 5, 9], [(3, 0), (5, 2), (9, 4)]),
        ([3, 3, ROSE, 3, 3], [(3, 0)]),
        ([3, ROSE, 5, 5], [(3, 0), (5, 1)]),
        ([ROSE, 5, 5], [(5, 0)]),
        ([5, 5, 1, 5, 5], [(5, 0)]),
        ([5, 5, 7, 1, 7], [(5, 0), (7, 2)]),
        ([1, 5, 5], [(1, 0), (5, 1)]),  # not decidable
        ([5, 5, 1], [(5, 0)]),  # the log ends behind one that fell
        ([3, 3, ROSE, 3], [(3, 0)]),  # or behind one that rose
        ([3, 3, ROSE, 4], [(3, 0), (4, 2)]),
        ([3, ROSE, 3, 4, 4, 9], [(3, 0), (4, 3), (9, 5)]),
    ],
)
def test_one_outlying_batch_says_nothing(epochs: list[int], found: list[tuple[int, int]]) -> None:
    runs = EpochRuns()
    for offset, epoch in enumerate(epochs):
        runs.assign(epoch, offset)
    assert runs.runs() == found
