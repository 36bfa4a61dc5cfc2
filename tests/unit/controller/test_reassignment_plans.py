"""Plans of reassignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cli.reassignment.reassignment_plans import (
    Assignment,
    balance,
    drain,
    moved_replicas,
    with_factor,
)
from barnabas.types import TopicPartition
from tests.effort import examples

Racks = dict[int, str | None]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, Racks]:
    """2 to 8 brokers in 1 to 4 racks, of which some may name none."""
    count = draw(st.integers(2, 8))
    named = [f"r{n}" for n in range(draw(st.integers(1, 4)))]
    choices: list[list[str | None]] = [[None], [*named], [None, *named]]
    kinds = draw(st.sampled_from(choices))
    racks = {b: draw(st.sampled_from(kinds)) for b in range(count)}
    factor = draw(st.integers(1, min(count, 5)))
    replicas = st.lists(st.integers(0, count - 1), min_size=factor, max_size=factor, unique=True)
    given = draw(st.lists(replicas.map(tuple), min_size=1, max_size=25))
    return {TopicPartition("t", i): one for i, one in enumerate(given)}, racks


def spread(brokers: Iterable[int], racks: Racks) -> int:
    """On how many racks they are; one without a name is its own."""
    return len({racks[b] or b for b in brokers})


def after(assignment: Assignment, plan: Assignment) -> Assignment:
    return {**assignment, **plan}


@settings(max_examples=examples(150))
@given(clusters(), st.integers(0, 1))
def test_drain_moves_all_of_a_broker_and_nothing_else(
    cluster: tuple[Assignment, Racks], leaving: int
) -> None:
    assignment, racks = cluster
    if any(len(r) > len(racks) - 1 for r in assignment.values()):
        with pytest.raises(ValueError, match="remain"):
            drain({TopicPartition("x", 0): tuple(racks)}, racks, [leaving])
        return
    plan = drain(assignment, racks, [leaving])
    for partition, replicas in after(assignment, plan).items():
        assert leaving not in replicas
        before = assignment[partition]
        assert len(set(replicas)) == len(before)
        if leaving not in before:
            assert replicas == before
            continue
        stays = [broker for broker in before if broker != leaving]
        assert set(stays) < set(replicas)
        could_be = spread(set(racks) - {leaving}, racks)
        assert spread(replicas, racks) == min(could_be, spread(stays, racks) + 1)
    assert moved_replicas(assignment, plan) == sum(leaving in r for r in assignment.values())


def three_each(brokers: list[int], partitions: int) -> Assignment:
    """RF 3, each broker with as many replicas and leaders as the others."""
    count = len(brokers)
    return {
        TopicPartition("t", i): tuple(
            brokers[(i + shift) % count] for shift in (0, 1 + i // count % (count - 2), count - 1)
        )
        for i in range(partitions)
    }


def test_a_drain_shares_the_leaders_out_and_changes_no_other_partition() -> None:
    assignment = three_each([1, 2, 3, 4, 5], 300)
    plan = drain(assignment, dict.fromkeys(range(1, 6)), [5])
    leads = Counter(r[0] for r in after(assignment, plan).values())
    assert leads == {1: 75, 2: 75, 3: 75, 4: 75}
    for partition, replicas in plan.items():
        before = assignment[partition]
        assert before[0] in (5, replicas[0])


def test_a_broker_that_is_closed_takes_nothing_and_keeps_what_it_has() -> None:
    assignment = three_each([1, 2, 3, 4, 5], 30)
    racks: Racks = dict.fromkeys(range(1, 7))
    for plan in (
        drain(assignment, racks, [5], closed={6, 4}),
        with_factor(assignment, racks, 4, closed={6, 4}),
        balance(assignment, racks, closed={6, 4}),
    ):
        for partition, replicas in plan.items():
            assert not ({4, 6} & set(replicas)) - set(assignment[partition])
    assert moved_replicas(assignment, drain(assignment, racks, [5], closed={6, 4}))
    with pytest.raises(ValueError, match="only 3 of 6 brokers take any"):
        with_factor(assignment, racks, 5, closed={6, 4, 5})
    with pytest.raises(ValueError, match="only 2 brokers remain that take any"):
        drain({TopicPartition("t", 0): (1, 2, 3)}, dict.fromkeys(range(1, 5)), [3], closed={4})


def test_a_removed_broker_is_preferred_by_no_new_partition() -> None:
    before = {TopicPartition("t", i): (1 + i % 2, 3) for i in range(8)}
    assert balance(before, {1: None, 2: None}) == {}


@settings(max_examples=examples(150))
@given(clusters())
def test_balance_evens_replicas_and_leaders_and_keeps_racks(
    cluster: tuple[Assignment, Racks],
) -> None:
    assignment, racks = cluster
    plan = balance(assignment, racks)
    result = after(assignment, plan)
    for partition, replicas in result.items():
        assert len(set(replicas)) == len(assignment[partition])
        assert spread(replicas, racks) >= spread(assignment[partition], racks)
    if all(rack is None for rack in racks.values()):
        load = Counter(b for r in result.values() for b in r)
        assert max(load[b] for b in racks) - min(load[b] for b in racks) <= 1
    leads = Counter(r[0] for r in result.values())
    for replicas in result.values():
        assert leads[replicas[0]] - min(leads[b] for b in replicas) <= 1
    assert not balance(result, racks), "a balanced cluster stays as it is"


@settings(max_examples=examples(150))
@given(clusters(), st.integers(1, 5))
def test_the_factor_changes_and_leader_and_racks_stay(
    cluster: tuple[Assignment, Racks], factor: int
) -> None:
    assignment, racks = cluster
    factor = min(factor, len(racks))
    result = after(assignment, with_factor(assignment, racks, factor))
    for partition, replicas in result.items():
        before = assignment[partition]
        assert len(set(replicas)) == factor
        assert replicas[0] == before[0]
        added = max(factor - len(before), 0)
        most = min(spread(racks, racks), spread(before, racks) + added)
        assert spread(replicas, racks) == min(factor, most)


@pytest.mark.parametrize("brokers", [4, 6, 8])
def test_shrinking_over_two_racks_leaves_a_replica_in_each(brokers: int) -> None:
    racks: Racks = {b: "ab"[b % 2] for b in range(brokers)}
    assignment = three_each(list(range(brokers)), 60)
    shrunk = with_factor(assignment, racks, 2)
    assert len(shrunk) == 60
    for partition, replicas in shrunk.items():
        assert spread(replicas, racks) == spread(assignment[partition], racks)


def test_the_fewest_replicas_in_one_rack_stay() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b"}
    one = TopicPartition("t", 0)
    assert with_factor({one: (1, 4, 5, 2, 3)}, racks, 4)[one] == (1, 4, 5, 2)
    assert with_factor({one: (1, 2, 4, 5)}, racks, 2, closed={4})[one] == (1, 5)


def test_an_impossible_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="4"):
        with_factor({}, {1: None, 2: None}, 4)
