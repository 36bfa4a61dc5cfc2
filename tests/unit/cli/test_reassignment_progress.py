"""Reassignments under way: where partitions go, what is throttled together, how long it takes."""

from __future__ import annotations

import pytest

from barnabas.cli.reassignment import reassignment_progress
from barnabas.cli.reassignment.reassignment_progress import (
    Estimate,
    Ongoing,
    Placed,
    awaited,
    estimate,
    waiting_for,
)
from barnabas.cli.reassignment.reassignment_throttle import ThrottledMove, moves_of
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.messages.list_partition_reassignments_response import (
    OngoingPartitionReassignment,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_partition_on_its_way_has_an_origin_and_a_target() -> None:
    way = Placed((1, 4, 2, 3), (4,), (2, 3))
    assert (way.origin, way.target, way.is_moving) == ((1, 2, 3), (1, 4), True)
    here = Placed((1, 2))
    assert (here.origin, here.target, here.is_moving) == ((1, 2), (1, 2), False)


def test_moves_under_way_are_throttled_with_new_ones() -> None:
    under_way = {A: Placed((3, 1), (3,), (1,))}
    beside = moves_of(under_way, {B: (Placed((1, 2)), (2, 3))})
    assert beside == {A: ThrottledMove((1,), (3,)), B: ThrottledMove((1, 2), (3,))}
    elsewhere = moves_of(under_way, {A: (under_way[A], (2,))})
    assert elsewhere == {A: ThrottledMove((1,), (2,))}


def test_a_move_to_fewer_replicas_waits_for_all_that_stay() -> None:
    def asked(replicas: list[int], adding: list[int], removing: list[int]) -> list[int]:
        return awaited(
            OngoingPartitionReassignment(
                replicas=replicas, adding_replicas=adding, removing_replicas=removing
            )
        )

    assert asked([4, 1, 2], [4], [2]) == [4]
    assert asked([1, 2, 3], [], [3]) == [1, 2]
    assert asked([4, 1, 2, 3], [4], [2, 3]) == [4, 1]


def row(at: TopicPartition, bytes_left: int, **given: object) -> Ongoing:
    made = Ongoing(at, 1, [2, 1], [2], [1], bytes_left=bytes_left)
    for name, value in given.items():
        setattr(made, name, value)
    return made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[list[Ongoing]]:
    """What `ongoing` finds, look by look; a second passes between two."""
    given: list[list[Ongoing]] = []
    clock = [0.0]
    monkeypatch.setattr(reassignment_progress, "ongoing", lambda connected, topics: given.pop(0))
    monkeypatch.setattr("time.sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    return given


def told(rows: list[Ongoing], throttles: dict[int, int]) -> Estimate:
    no_client: Connected = None  # type: ignore[assignment]
    return estimate(no_client, [], rows, throttles)


def test_the_rate_is_what_came_between_two_looks(looks: list[list[Ongoing]]) -> None:
    looks += [[row(A, 600), row(B, 0)]]
    assert told([row(A, 1000), row(B, 200)], {}) == Estimate(600, 600.0, 1.0)


def test_a_throttled_copy_is_looked_at_longer_and_takes_what_the_throttle_says(
    looks: list[list[Ongoing]],
) -> None:
    looks += [[row(A, 9000)]] * 3 + [[row(A, 5000)]]
    assert told([row(A, 9000)], {2: 500}) == Estimate(5000, 1000.0, 10.0)
    looks[:] = [[row(A, 9000), row(B, 1000)]] * 5
    rows = [row(A, 9000), row(B, 1000)]
    assert told(rows, {1: 500, 2: 2000}) == Estimate(10_000, 0.0, 20.0)


def test_a_move_that_waits_for_a_dead_broker_has_no_estimate(
    looks: list[list[Ongoing]],
) -> None:
    assert told([row(A, 0, fenced=[2])], {}) == Estimate(0, 0.0, None)
    assert told([row(A, 0)], {}) == Estimate(0, 0.0, 0.0)
    looks += [[row(A, 700)]] * 5
    assert told([row(A, 700, fenced=[2])], {2: 100}) == Estimate(700, 0.0, None)
    looks[:] = [[row(A, 700), row(B, 300)]]
    assert told([row(A, 700, leader=-1), row(B, 600)], {}) == Estimate(1000, 300.0, 1.0)


def test_partitions_that_wait_are_counted_by_what_they_wait_for() -> None:
    rows = [row(A, 0, fenced=[2]), row(B, 5, fenced=[2]), row(A, 5), row(B, 5, leader=-1)]
    assert waiting_for(rows) == [
        "1 of 4 wait for a leader",
        "2 of 4 wait for broker 2, which is fenced",
    ]
