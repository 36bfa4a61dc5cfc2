"""Combined batches hold what each offset's strongest batch says, in as few batches as that takes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.share.delivery import StateBatch, combine

batches = st.lists(
    st.builds(
        lambda first, size, state, deliveries: StateBatch(first, first + size, state, deliveries),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 3),
    ),
    max_size=8,
)


@pytest.mark.slow
@given(batches, batches, st.integers(-1, 20))
def test_each_offset_has_its_strongest_batch(
    known: list[StateBatch], added: list[StateBatch], start: int
) -> None:
    found = combine(known, added, start)
    expected: dict[int, tuple[int, int]] = {}
    for batch in [*known, *added]:
        for offset in range(max(batch.first, start), batch.last + 1):
            strength = (batch.deliveries, batch.state)
            expected[offset] = max(expected.get(offset, (0, 0)), strength)
    told = {
        offset: (batch.deliveries, batch.state)
        for batch in found
        for offset in range(batch.first, batch.last + 1)
    }
    assert told == expected
    for before, after in pairwise(found):
        assert before.last < after.first
        same = (before.state, before.deliveries) == (after.state, after.deliveries)
        assert not (same and before.last + 1 == after.first)


def test_a_batch_is_cut_where_a_stronger_one_lies_in_it() -> None:
    assert combine([StateBatch(0, 9, 0, 1)], [StateBatch(3, 5, 2, 1)], -1) == (
        StateBatch(0, 2, 0, 1),
        StateBatch(3, 5, 2, 1),
        StateBatch(6, 9, 0, 1),
    )


def test_batches_before_the_start_are_dropped() -> None:
    assert combine([StateBatch(0, 9, 2, 1)], [], 4) == (StateBatch(4, 9, 2, 1),)
    assert combine([StateBatch(0, 3, 2, 1)], [], 4) == ()
