"""The markers of a transaction that ended are on their way, each of them, until its partition has it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.transaction.markers import (
    ENDING_MOVES,
    MARKER_RETRY_MS,
    OVER,
    EndingState,
    Markers,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from tests.unit.transaction.world import World


def ending_world() -> World:
    """A transaction with partitions at brokers 0 and 1 has ended; its leaders have yet to answer."""
    world = World()
    world.topic("t", partitions=2)
    world.leaders.held = True
    given = world.send(
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4
    ).answer
    who = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    world.send(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
        ),
        3,
    )
    world.send(EndTxnRequest(transactional_id="x", committed=True, **who), 3)
    return world


def ending_of(world: World) -> Any:
    (ending,) = world.markers._endings[0].values()
    return ending


def test_every_state_is_reached_and_two_are_ends() -> None:
    reached = {state for moves in ENDING_MOVES.values() for state in moves}
    assert reached == set(EndingState) - {EndingState.WRITING}
    assert {state for state, moves in ENDING_MOVES.items() if not moves} == OVER


def test_an_ending_goes_from_writing_over_completing_to_complete() -> None:
    world = ending_world()
    ending = ending_of(world)
    assert state_of(ending) is EndingState.WRITING and len(ending.remaining) == 2
    world.held = True  # the log of the coordinator commits nothing
    world.leaders.answer()
    world.settle()
    assert state_of(ending) is EndingState.COMPLETING and not ending.remaining
    world.held = False
    world.settle()
    assert state_of(ending) is EndingState.COMPLETE and not world.markers._endings[0]


def test_an_ending_is_cancelled_with_its_coordinator() -> None:
    world = ending_world()
    ending = ending_of(world)
    world.resign()
    assert state_of(ending) is EndingState.CANCELLED
    world.leaders.answer()
    world.settle()
    assert state_of(ending) is EndingState.CANCELLED
    with pytest.raises(AssertionError, match="may not become completing"):
        ending.enter(EndingState.COMPLETING)


def test_a_completion_under_way_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition lost its leader while that one was asked, so it waited for the next try as well."""
    completed: list[object] = []
    honest = Markers._complete

    def counted(self: Markers, ending: Any) -> None:
        completed.append(ending)
        honest(self, ending)

    monkeypatch.setattr(Markers, "_complete", counted)
    world = ending_world()
    world.lead("t", 0, -1)
    world.held = True
    world.leaders.answer()
    world.settle()
    assert len(completed) == 1
    world.advance(3 * MARKER_RETRY_MS)
    assert len(completed) == 1


def test_a_marker_that_is_not_on_its_way_is_found() -> None:
    world = ending_world()
    world.leaders.refusals["t", 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.leaders.answer()
    world.settle()
    ending = ending_of(world)
    assert list(ending.remaining) == [("t", 0)]
    world.markers._later.clear()
    with pytest.raises(AssertionError, match="no broker is asked for the markers"):
        world.markers.validate()


def test_an_ending_in_a_collection_of_another_state_is_found() -> None:
    world = ending_world()
    ending = ending_of(world)
    for wrong in set(EndingState) - {EndingState.WRITING}:
        ending.state = wrong
        with pytest.raises(AssertionError):
            world.markers.validate()
    ending.state = EndingState.WRITING
    world.markers.validate()


def state_of(ending: Any) -> EndingState:
    state: EndingState = ending.state
    return state
