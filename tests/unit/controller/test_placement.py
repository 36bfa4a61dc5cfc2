"""Placement: even within one creation, over as many racks as there are, never on fenced brokers."""

from __future__ import annotations

import random
from collections import Counter
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.controller.partitions.placement import UsableBroker, place
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples

seeds = st.integers(0, 1 << 16)


def spread(placed: list[tuple[int, ...]], ids: list[int]) -> tuple[int, int]:
    """(most − fewest) of replicas and of leaders per broker."""
    replicas = Counter(b for one in placed for b in one)
    leaders = Counter(one[0] for one in placed)
    return (
        max(replicas[b] for b in ids) - min(replicas[b] for b in ids),
        max(leaders[b] for b in ids) - min(leaders[b] for b in ids),
    )


def check_sound(placed: list[tuple[int, ...]], partitions: int, factor: int) -> None:
    assert len(placed) == partitions
    assert all(len(one) == factor == len(set(one)) for one in placed)


@settings(max_examples=examples(200))
@given(st.integers(1, 30), st.integers(1, 200), st.data(), seeds)
def test_replicas_and_leaders_without_racks_differ_by_at_most_one(
    count: int, partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, min(count, 6)))
    ids = list(range(count))
    placed = place(
        [UsableBroker(b, None, False) for b in ids], partitions, factor, random.Random(seed)
    )
    check_sound(placed, partitions, factor)
    assert max(spread(placed, ids)) <= 1


@settings(max_examples=examples(200))
@given(st.integers(2, 6), st.integers(1, 6), st.integers(1, 150), st.data(), seeds)
def test_over_racks_of_equal_size_replicas_and_leaders_differ_by_at_most_one(
    racks: int, size: int, partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, min(racks * size, 6)))
    brokers = [
        UsableBroker(r * size + i, f"r{r}", False) for r in range(racks) for i in range(size)
    ]
    placed = place(brokers, partitions, factor, random.Random(seed))
    check_sound(placed, partitions, factor)
    assert max(spread(placed, [b.id for b in brokers])) <= 1
    rack_of = {b.id: b.rack for b in brokers}
    assert all(len({rack_of[b] for b in one}) == min(factor, racks) for one in placed)


@settings(max_examples=examples(100))
@given(st.lists(st.integers(1, 6), min_size=2, max_size=5), st.integers(1, 150), st.data(), seeds)
def test_over_racks_of_unequal_size_every_rack_leads_equally_often(
    sizes: list[int], partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, min(sum(sizes), 5)))
    rack_of = {r * 10 + i: r for r, size in enumerate(sizes) for i in range(size)}
    brokers = [UsableBroker(b, f"r{r}", False) for b, r in rack_of.items()]
    placed = place(brokers, partitions, factor, random.Random(seed))
    check_sound(placed, partitions, factor)
    leads = Counter(rack_of[one[0]] for one in placed)
    assert max(leads[r] for r in range(len(sizes))) - min(leads[r] for r in range(len(sizes))) <= 1
    assert all(len({rack_of[b] for b in one}) == min(factor, len(sizes)) for one in placed)
    if factor <= len(sizes):
        held = Counter(rack_of[b] for one in placed for b in one)
        assert (
            max(held[r] for r in range(len(sizes))) - min(held[r] for r in range(len(sizes)))
            <= factor
        )


@pytest.mark.slow
@pytest.mark.parametrize("racks", [False, True])
def test_many_small_topics_stay_within_the_documented_bound(racks: bool) -> None:
    rng = random.Random(7)
    ids = list(range(12))
    brokers = [UsableBroker(b, f"r{b % 3}" if racks else None, False) for b in ids]
    topics = 3000
    placed = [place(brokers, 1, 3, rng)[0] for _ in range(topics)]
    replicas = Counter(b for one in placed for b in one)
    leaders = Counter(one[0] for one in placed)
    for b in ids:
        assert abs(leaders[b] - topics / 12) <= 5 * sqrt(topics / 12)
        assert abs(replicas[b] - 3 * topics / 12) <= 5 * sqrt(3 * topics / 12)


def test_partners_change_from_round_to_round() -> None:
    placed = place([UsableBroker(b, None, False) for b in range(7)], 42, 3, random.Random(1))
    partners = {frozenset(one[1:]) for one in placed if one[0] == 0}
    assert len(partners) >= 4


def test_fenced_brokers_take_a_replica_only_where_there_are_too_few_others() -> None:
    brokers = [UsableBroker(b, None, b >= 3) for b in range(5)]
    for one in place(brokers, 20, 3, random.Random(1)):
        assert set(one) == {0, 1, 2}
    for one in place(brokers, 20, 4, random.Random(1)):
        assert one[0] < 3 and set(one[:3]) == {0, 1, 2} and one[3] >= 3


def test_too_high_a_factor_names_both_numbers() -> None:
    with pytest.raises(KafkaError, match=r"replication factor of 4 .* only 3 broker") as caught:
        place([UsableBroker(b, None, False) for b in range(3)], 1, 4, random.Random(1))
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_placement_without_an_unfenced_broker_is_refused() -> None:
    with pytest.raises(KafkaError, match="fenced"):
        place([UsableBroker(1, None, True)], 1, 1, random.Random(1))
