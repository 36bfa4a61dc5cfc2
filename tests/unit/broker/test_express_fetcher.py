"""A partition that is added while the leader keeps a fetch does not wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.follower.fetcher_pool import EXPRESS_MAX, EXPRESS_WAIT_MS
from tests.unit.broker.test_fetcher import World, data


def partitions_of(request: Any) -> set[int]:
    return {p.partition for topic in request.topics for p in topic.partitions}


@pytest.fixture
def world() -> World:
    """Two partitions are fetched; the leader keeps the request. Their request is ``sent[0]``."""
    world = World()
    world.follow()
    world.answer()
    assert len(world.hand.sent) == 1
    return world


def add(world: World, index: int) -> None:
    world.partitions.append(world.partition(index))
    world.follow()


def test_a_new_partition_is_fetched_at_once_beside_the_kept_request(world: World) -> None:
    add(world, 2)
    assert len(world.hand.sent) == 2
    assert partitions_of(world.hand.sent[1].request) == {2}
    assert world.hand.sent[1].request.session_id == 0


def test_partitions_of_an_express_request_are_in_no_other_request_meanwhile(
    world: World,
) -> None:
    """It might come to the leader after the other one, and older news would be taken for newer."""
    add(world, 2)
    world.answer()  # the kept one
    express, regular = world.hand.sent
    assert partitions_of(regular.request) == set()
    express.answer(_with(world, data(2, b"x", high_watermark=0)))
    assert world.log(2).log_end_offset == 1
    assert partitions_of(world.hand.sent[-1].request) == {2}


def test_the_regular_fetcher_takes_it_over_once_nothing_under_way_names_it(world: World) -> None:
    add(world, 2)
    world.hand.sent.pop(1).answer(_with(world, session=5))
    assert partitions_of(world.hand.sent[1].request) == set()
    world.answer()
    express, regular = world.hand.sent
    assert partitions_of(regular.request) == {2}
    assert regular.request.session_epoch > 0
    # What the express fetcher still gets is not appended: the regular one asks for the same.
    express.answer(_with(world, data(2, b"x", high_watermark=0), session=5))
    assert world.log(2).log_end_offset == 0


def test_waves_beyond_the_limit_wait_for_an_express_fetchers_short_request(world: World) -> None:
    """Not for the regular one, which the leader may keep for half a second."""
    for index in range(2, 2 + EXPRESS_MAX + 2):
        add(world, index)
    regular, *express = world.hand.sent
    assert [one.request.max_wait_ms for one in express] == [EXPRESS_WAIT_MS] * EXPRESS_MAX
    assert regular.request.max_wait_ms > EXPRESS_WAIT_MS
    for one in express[:2]:
        one.answer(_with(world, session=5))
    later = world.hand.sent[-2:]
    assert [partitions_of(one.request) for one in later] == [{2 + EXPRESS_MAX}, {3 + EXPRESS_MAX}]


def test_an_express_fetcher_beside_an_idle_one_waits_as_long_as_that_would(
    world: World,
) -> None:
    add(world, 2)
    for index in (0, 1):
        world.pool.stop(world.partitions[index])
    world.answer()  # the regular fetcher takes nothing over and follows nothing
    world.hand.sent[0].answer(_with(world, session=5))
    assert world.hand.sent[-1].request.max_wait_ms > EXPRESS_WAIT_MS


def test_a_leader_that_is_not_followed_any_more_is_let_go(world: World) -> None:
    add(world, 2)
    assert len(world.pool) == 1
    for partition in world.partitions:
        world.pool.stop(partition)
    world.pool.maybe_fetch()
    assert len(world.pool) == 0


def _with(world: World, *partitions: Any, session: int = 0) -> Any:
    from barnabas.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse
    from tests.unit.broker.test_fetcher import TOPIC_ID

    return FetchResponse(
        session_id=session,
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))],
    )
