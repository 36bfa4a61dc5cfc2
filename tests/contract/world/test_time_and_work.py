"""Wake-ups, background work, chance and clock of both worlds."""

from __future__ import annotations

from tests.contract.world.worlds import World, world

__all__ = ["world"]


def test_wakeups_come_by_instant_not_before_it_and_may_be_cancelled(world: World) -> None:
    clock, wakeups = world.ports.clock, world.ports.wakeups
    began = clock.now_ms()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, clock.now_ms()))

    wakeups.call_at(began + 8, lambda: note("third"))
    wakeups.call_at(began + 4, lambda: note("second"))
    wakeups.call_at(began + 6, lambda: note("never")).cancel()
    wakeups.call_at(began - 1000, lambda: note("first"))
    world.until(lambda: len(seen) == 3)
    assert [name for name, _ in seen] == ["first", "second", "third"]
    assert seen[1][1] >= began + 4
    assert seen[2][1] >= began + 8


def test_call_soon_keeps_the_order_and_is_not_called_from_inside(world: World) -> None:
    seen: list[int] = []
    for number in range(5):
        world.ports.wakeups.call_soon(lambda n=number: seen.append(n))  # type: ignore[misc]
    assert seen == []
    world.until(lambda: len(seen) == 5)
    assert seen == [0, 1, 2, 3, 4]


def test_a_cancelled_wakeup_may_be_cancelled_again_and_after_it_ran(world: World) -> None:
    ran: list[bool] = []
    wakeup = world.ports.wakeups.call_at(world.ports.clock.now_ms(), lambda: ran.append(True))
    world.until(lambda: bool(ran))
    wakeup.cancel()
    wakeup.cancel()


def test_a_wakeup_that_is_late_may_be_cancelled_by_one_before_it(world: World) -> None:
    """Both are due when the process comes to them."""
    wakeups, began = world.ports.wakeups, world.ports.clock.now_ms()
    ran: list[str] = []
    second = wakeups.call_at(began + 2, lambda: ran.append("second"))
    wakeups.call_at(began + 1, second.cancel)
    wakeups.call_at(began + 3, lambda: ran.append("third"))
    world.be_busy(20)
    world.until(lambda: "third" in ran)
    assert ran == ["third"]


def test_brief_jobs_keep_their_order_with_the_others_of_their_queue(world: World) -> None:
    """Whether they are done at once or not."""
    told: list[object] = []
    given = 0
    for _ in range(30):
        for brief in (True, True, False, True):
            run = world.ports.background.run_brief if brief else world.ports.background.run
            run("q", lambda n=given: n, told.append)  # type: ignore[misc]
            given += 1
        world.until(lambda: len(told) == given)  # noqa: B023 - called at once
    assert told == list(range(given))

    def fail() -> None:
        raise OSError(28, "no space")

    world.ports.background.run_brief("q", fail, told.append)
    world.until(lambda: len(told) > given)
    assert isinstance(told[-1], OSError)


def test_a_queue_keeps_its_order_and_tells_results_and_errors(world: World) -> None:
    told: list[object] = []

    def fail() -> None:
        raise OSError(28, "no space")

    for number in range(5):
        world.ports.background.run("q", lambda n=number: n, told.append)  # type: ignore[misc]
    world.ports.background.run("q", fail, told.append)
    world.ports.background.run("q", lambda: "after", told.append)
    assert told == []
    world.until(lambda: len(told) == 7)
    assert told[:5] == [0, 1, 2, 3, 4]
    assert isinstance(told[5], OSError)
    assert told[6] == "after"


def test_a_job_may_be_given_from_a_callback(world: World) -> None:
    told: list[str] = []
    world.ports.background.run(
        "q",
        lambda: "first",
        lambda result: world.ports.background.run("q", lambda: "second", told.append),  # type: ignore[arg-type]
    )
    world.until(lambda: told == ["second"])


def test_chance_is_split_by_concern(world: World) -> None:
    elections, placement = world.ports.rng("elections"), world.ports.rng("placement")
    assert [elections.random() for _ in range(4)] != [placement.random() for _ in range(4)]
    assert len(elections.randbytes(16)) == 16


def test_clocks_go_forward(world: World) -> None:
    clock = world.ports.clock
    first = clock.now_ms()
    seen: list[bool] = []
    world.ports.wakeups.call_at(first + 2, lambda: seen.append(True))
    world.until(lambda: bool(seen))
    assert clock.now_ms() >= first + 2
    assert clock.wall_ms() > 1_700_000_000_000
