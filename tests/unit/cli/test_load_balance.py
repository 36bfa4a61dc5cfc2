"""Plans of `cluster balance`: even brokers by few moves, racks kept."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from barnabas.cli.reassignment.load_balance import (
    NOTHING,
    Weight,
    even_out,
    loads_of,
    spread_of,
)
from barnabas.cli.reassignment.reassignment_plans import Assignment, moved_replicas
from barnabas.types import TopicPartition

NO_RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3))


def tp(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def after(before: Mapping[TopicPartition, tuple[int, ...]], plan: Assignment) -> Assignment:
    return {**before, **plan}


def test_a_balanced_cluster_stays_as_it_is() -> None:
    before = {tp(i): (i % 3 + 1, (i + 1) % 3 + 1) for i in range(6)}
    weights = {at: Weight(100, 10) for at in before}
    assert even_out(before, weights, NO_RACKS) == {}


def test_one_heavy_partition_moves_rather_than_many_light_ones() -> None:
    before = {tp(i): (1,) for i in range(2)} | {tp(i): (i % 2 + 1,) for i in range(2, 12)}
    weights = {at: Weight(1, 0) for at in before} | {
        tp(0): Weight(1_000, 0),
        tp(1): Weight(1_000, 0),
    }
    plan = even_out(before, weights, dict.fromkeys((1, 2)), tolerance=0.3)
    assert len(plan) == 1 and set(plan) <= {tp(0), tp(1)}


def test_equal_sizes_with_unequal_rates_are_evened_by_rate() -> None:
    before = {tp(i): (i % 2 + 1,) for i in range(8)}
    weights = {at: Weight(100, 50 if before[at] == (1,) else 0) for at in before}
    plan = even_out(before, weights, dict.fromkeys((1, 2)))
    rates = [load.bytes_per_s for load in loads_of(after(before, plan), weights, (1, 2)).values()]
    assert spread_of(rates) <= 0.1


def test_a_new_broker_takes_its_part() -> None:
    before = {tp(i): (i % 2 + 1, (i + 1) % 2 + 1) for i in range(12)}
    weights = {at: Weight(100, 10) for at in before}
    plan = even_out(before, weights, NO_RACKS)
    loads = loads_of(after(before, plan), weights, (1, 2, 3))
    assert [load.replicas for load in loads.values()] == [8, 8, 8]
    assert [load.leaders for load in loads.values()] == [4, 4, 4]
    assert moved_replicas(before, plan) == 8


def test_leaders_move_without_a_copy() -> None:
    before = {tp(i): (1, 2, 3) for i in range(9)}
    weights = {at: Weight(100, 10) for at in before}
    plan = even_out(before, weights, NO_RACKS)
    loads = loads_of(after(before, plan), weights, (1, 2, 3))
    assert [load.leaders for load in loads.values()] == [3, 3, 3]
    assert moved_replicas(before, plan) == 0


def test_leaders_are_even_by_what_is_written_to_them() -> None:
    before = {tp(i): (i % 2 + 1, (i + 1) % 2 + 1) for i in range(4)}
    weights = {at: Weight(100, 100 if before[at][0] == 1 else 0) for at in before}
    plan = even_out(before, weights, dict.fromkeys((1, 2)))
    loads = loads_of(after(before, plan), weights, (1, 2))
    assert [load.leader_bytes_per_s for load in loads.values()] == [100, 100]
    assert [load.leaders for load in loads.values()] == [2, 2]


def test_a_broker_that_takes_no_replicas_gets_none_and_leads_no_more() -> None:
    before = {tp(i): (1, 2) for i in range(6)}
    weights = {at: Weight(100, 10) for at in before}
    plan = even_out(before, weights, NO_RACKS, closed=(3,))
    assert all(3 not in replicas for replicas in plan.values())


def test_a_plan_copies_no_more_than_it_may() -> None:
    before = {tp(i): (1,) for i in range(30)}
    weights = {at: Weight(100, 10) for at in before}
    plan = even_out(before, weights, NO_RACKS, moves_max=4)
    assert moved_replicas(before, plan) == 4


def test_a_cluster_without_brokers_that_take_replicas_has_no_plan() -> None:
    assert even_out({tp(0): (1,)}, {}, {1: None}, closed=(1,)) == {}


@pytest.mark.parametrize("seed", range(40))
def test_any_plan_keeps_racks_and_lowers_the_imbalance(seed: int) -> None:
    rng = random.Random(seed)
    brokers = list(range(1, rng.randint(3, 9)))
    racks: Mapping[int, str | None] = {b: rng.choice(["a", "b", "c", None]) for b in brokers}
    before: Assignment = {}
    weights = {}
    for index in range(rng.randint(1, 60)):
        count = rng.randint(1, min(3, len(brokers)))
        before[tp(index)] = tuple(rng.sample(brokers[: max(count, 1 + seed % len(brokers))], count))
        weights[tp(index)] = Weight(rng.expovariate(1e-6), rng.choice([0, rng.expovariate(1e-3)]))
    plan = even_out(before, weights, racks)
    now = after(before, plan)
    for at, replicas in now.items():
        assert len(set(replicas)) == len(replicas) == len(before[at])
        assert len({racks[b] or b for b in replicas}) >= len({racks[b] or b for b in before[at]})

    def imbalance(assignment: Assignment) -> float:
        loads = loads_of(assignment, weights, brokers).values()
        columns: list[list[float]] = [
            [load.bytes for load in loads],
            [load.bytes_per_s for load in loads],
            [load.replicas for load in loads],
        ]
        means = [sum(column) / len(column) for column in columns]
        return sum(
            (value / mean - 1) ** 2
            for column, mean in zip(columns, means, strict=True)
            if mean
            for value in column
        )

    assert imbalance(now) <= imbalance(before) + 1e-9
    assert weights.get(tp(10_000), NOTHING) == NOTHING
