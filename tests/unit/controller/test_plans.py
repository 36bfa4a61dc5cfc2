"""Plans of reassignments."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.controller.plans import Assignment, balance, drain, moved_replicas, with_factor
from barnabas.types import TopicPartition
from tests.effort import examples


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, dict[int, str | None]]:
    count = draw(st.integers(3, 7))
    with_racks = draw(st.booleans())
    racks = {b: f"r{b % 3}" if with_racks else None for b in range(count)}
    factor = draw(st.integers(1, 3))
    replicas = st.lists(st.integers(0, count - 1), min_size=factor, max_size=factor, unique=True)
    given = draw(st.lists(replicas.map(tuple), min_size=1, max_size=25))
    return {TopicPartition("t", i): one for i, one in enumerate(given)}, racks


def after(assignment: Assignment, plan: Assignment) -> Assignment:
    return {**assignment, **plan}


@settings(max_examples=examples(150), deadline=None)
@given(clusters(), st.integers(0, 2))
def test_drain_moves_all_of_a_broker_and_nothing_else(
    cluster: tuple[Assignment, dict[int, str | None]], leaving: int
) -> None:
    assignment, racks = cluster
    if any(len(r) > len(racks) - 1 for r in assignment.values()):
        with pytest.raises(ValueError, match="remain"):
            drain({TopicPartition("x", 0): tuple(racks)}, racks, [leaving])
        return
    plan = drain(assignment, racks, [leaving])
    for partition, replicas in after(assignment, plan).items():
        assert leaving not in replicas
        assert len(set(replicas)) == len(assignment[partition])
    assert moved_replicas(assignment, plan) == sum(leaving in r for r in assignment.values())


@settings(max_examples=examples(150), deadline=None)
@given(clusters())
def test_balance_evens_replicas_and_leaders_and_keeps_racks(
    cluster: tuple[Assignment, dict[int, str | None]],
) -> None:
    assignment, racks = cluster
    plan = balance(assignment, racks)
    result = after(assignment, plan)
    for partition, replicas in result.items():
        assert len(set(replicas)) == len(assignment[partition])
        assert len({racks[b] for b in replicas}) >= len({racks[b] for b in assignment[partition]})
    if all(rack is None for rack in racks.values()):
        load = Counter(b for r in result.values() for b in r)
        assert max(load[b] for b in racks) - min(load[b] for b in racks) <= 1
    leads = Counter(r[0] for r in result.values())
    for replicas in result.values():
        assert leads[replicas[0]] - min(leads[b] for b in replicas) <= 1
    assert not balance(result, racks), "a balanced cluster stays as it is"


@settings(max_examples=examples(80), deadline=None)
@given(clusters(), st.integers(1, 3))
def test_the_factor_changes_and_the_preferred_leader_stays(
    cluster: tuple[Assignment, dict[int, str | None]], factor: int
) -> None:
    assignment, racks = cluster
    result = after(assignment, with_factor(assignment, racks, factor))
    for partition, replicas in result.items():
        assert len(set(replicas)) == factor
        assert replicas[0] == assignment[partition][0]


def test_an_impossible_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="4"):
        with_factor({}, {1: None, 2: None}, 4)
