"""Why leaders are left alone: told one by one, of the broker where it is the broker's, and once."""

from __future__ import annotations

import pytest

from barnabas.controller.active import leader_balance
from barnabas.controller.active.leader_balance import TOLD_MAX
from barnabas.limits import DecisionBounds
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.unit.controller.harness import World

MANY = TOLD_MAX + 10


@pytest.fixture
def world() -> World:
    """Brokers 1 and 2; 1 is preferred for all and is back, not in any ISR yet."""
    world = World({"leader.imbalance.check.interval.seconds": "1"})
    world.join(1, 2)
    world.create("t", [[1, 2]] * MANY)
    world.kill(1)
    return world


def notes(world: World, after: int = -1) -> list[tuple[str, str]]:
    return [(n.subject, n.reason) for n in world.controller.refusals.after(after)]


def passes(world: World, count: int = 1) -> None:
    for _ in range(count):
        world.advance(1000)
        world.settle()
        world.heartbeat(2)


def test_a_brokers_own_reason_is_logged_once_for_all_its_partitions(world: World) -> None:
    passes(world, 3)
    said = notes(world)
    assert [subject for subject, _ in said] == ["broker 1"]
    assert said[0][1].startswith(f"it does not lead {MANY} of the {MANY} partitions that prefer it")
    assert said[0][1].endswith(f"t-0, t-1, t-2, t-3, t-4 and {MANY - 5} more")


def test_a_broker_that_is_not_registered_any_more_is_named_too(world: World) -> None:
    world.kill(1)
    world.ask(UnregisterBrokerRequest(broker_id=1))
    passes(world)
    assert [subject for subject, _ in notes(world)] == ["broker 1"]


def test_many_partitions_with_reasons_of_their_own_do_not_drown_the_others(world: World) -> None:
    world.revive(1, clean=True)
    passes(world)
    said = notes(world)
    subjects = [subject for subject, _ in said]
    assert subjects == [*(f"t-{i}" for i in range(TOLD_MAX)), "broker 1"]
    assert said[-1][1].startswith(f"{MANY - TOLD_MAX} more are left: t-{TOLD_MAX}, ")
    seen = len(said)
    passes(world, 3)
    assert len(notes(world)) == seen, "nothing has changed"


def test_a_reason_that_ceased_and_came_back_is_logged_again(world: World) -> None:
    passes(world)
    world.revive(1, clean=True)
    passes(world)
    before = len(notes(world))
    world.kill(1)
    passes(world)
    assert [subject for subject, _ in notes(world, before - 1)] == ["broker 1"]


def test_a_pass_that_ends_early_says_so(world: World) -> None:
    world.controller.cluster.bounds = DecisionBounds(moves_max=12)
    world.revive(1, clean=True)
    topic = world.image.topics_by_name["t"]
    for index in range(MANY):
        topic.isr[index] = (2, 1)
    passes(world)
    assert set(topic.leader) == {1}, "one pass after the other, at once"
    assert notes(world) == [("leaders", "12 were moved in one pass; the next begins at once")]


def test_a_fault_in_a_pass_is_not_the_end_of_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*others: object) -> None:
        monkeypatch.undo()
        raise MemoryError("for a moment")

    monkeypatch.setattr(leader_balance, "imbalance", fail)
    with pytest.raises(MemoryError):  # the loop tells of it, and continues
        passes(world)
    passes(world)
    assert [subject for subject, _ in notes(world)] == ["broker 1"]
