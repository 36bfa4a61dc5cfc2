"""A fetch has one state, by named moves, and no collection has it in another one."""

from __future__ import annotations

import pytest

from barnabas.broker.fetch.delayed_fetch import FETCH_MOVES, DelayedFetch, FetchState
from barnabas.broker.fetch.fetch_service import FetchService
from barnabas.limits import FetchBounds, NodeBounds
from tests.unit.broker.world import Answer, Cluster


@pytest.fixture(scope="module")
def one() -> Cluster:
    cluster = Cluster(1)
    cluster.create_topic("t")
    cluster.create_topic("cold")
    return cluster


def service(cluster: Cluster) -> FetchService:
    return cluster.broker().fetches


def waiting(cluster: Cluster) -> tuple[Answer, DelayedFetch]:
    """A fetch that finds nothing, and its answer."""
    end = cluster.partition(1).high_watermark
    answer = cluster.ask_later(cluster.fetch_request(end, max_wait_ms=500), purpose="waits")
    cluster.run(50)
    (watched,) = cluster.partition(1).high_watermark_watchers
    return answer, watched.session.delayed_fetch


def state_of(fetch: DelayedFetch) -> FetchState:
    return fetch.state


def test_every_state_is_reached_and_left_by_a_move() -> None:
    reached = {state for moves in FETCH_MOVES.values() for state in moves}
    assert reached == set(FetchState) - {FetchState.APPLYING}
    assert [state for state, moves in FETCH_MOVES.items() if not moves] == [FetchState.ENDED]


def test_a_fetch_is_delayed_until_its_partition_moves(one: Cluster) -> None:
    answer, fetch = waiting(one)
    assert state_of(fetch) is FetchState.DELAYED and fetch.bucket != -1
    service(one).validate()
    one.produce([b"x"])
    one.until(lambda: answer.is_there)
    assert state_of(fetch) is FetchState.ENDED and fetch.session.delayed_fetch is None
    service(one).validate()


def test_a_fetch_reads_cold_data_without_a_deadline() -> None:
    cluster = Cluster(1)
    cluster.create_topic("t")
    cluster.produce([b"x"])
    disk = cluster.sim.nodes[1].machine.disk
    disk.cold_read_rate = 1.0
    answer = cluster.ask_later(cluster.fetch_request(0, max_wait_ms=500))
    seen: list[FetchState] = []

    def moved() -> bool:
        for watched in cluster.partition(1).high_watermark_watchers:
            fetch = watched.session.delayed_fetch
            if fetch is not None:
                fetch.validate()
                seen.append(fetch.state)
        return answer.is_there

    cluster.until(moved)
    assert FetchState.READING_COLD in seen


@pytest.mark.slow
def test_a_large_fetch_is_applied_and_read_in_states_of_their_own() -> None:
    small = FetchBounds(inline_max=0, followed_per_slice=1, read_per_slice=1)
    cluster = Cluster(1, bounds=NodeBounds(small))
    cluster.create_topic("t", 20)
    request = cluster.fetch_request(0)
    (partition,) = request.topics[0].partitions
    request.topics[0].partitions = [
        type(partition)(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(20)
    ]
    answer = cluster.ask_later(request)
    seen: list[FetchState] = []

    def moved() -> bool:
        for watched in cluster.partition(1).high_watermark_watchers:
            fetch = watched.session.delayed_fetch
            if fetch is not None and fetch.state not in seen:
                seen.append(fetch.state)
            if fetch is not None:
                fetch.validate()
        return answer.is_there

    cluster.until(moved)
    assert seen == [FetchState.APPLYING, FetchState.READING]


def test_a_move_that_is_not_in_the_table_is_refused(one: Cluster) -> None:
    answer, fetch = waiting(one)
    with pytest.raises(AssertionError, match="may not become applying"):
        fetch.enter(FetchState.APPLYING)
    one.until(lambda: answer.is_there)
    with pytest.raises(AssertionError, match="may not become delayed"):
        fetch.enter(FetchState.DELAYED)


def test_a_state_that_contradicts_the_deadlines_is_found(one: Cluster) -> None:
    answer, fetch = waiting(one)
    for wrong in set(FetchState) - {FetchState.DELAYED}:
        fetch.state = wrong
        with pytest.raises(AssertionError):
            fetch.validate()
    fetch.state = FetchState.DELAYED
    fetch.validate()
    one.until(lambda: answer.is_there)
