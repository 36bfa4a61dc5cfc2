"""Tasks end once, with a value or an exception, also when they are cancelled."""

from __future__ import annotations

import pytest

from barnabas.client.network.tasks import Cancelled, TaskOutcome, Tasks
from tests.unit.client.loopback import World


def test_steps_run_as_outcomes_come() -> None:
    world = World()
    tasks = Tasks(world)
    first: TaskOutcome[int] = TaskOutcome()
    seen: list[str] = []

    async def steps() -> int:
        seen.append("begun")
        value = await first
        await tasks.sleep(100)
        seen.append(f"slept until {world.now:.0f}")
        return value + 1

    task = tasks.start(steps())
    assert seen == ["begun"] and not task.done
    first.resolve(1)
    first.resolve(9)  # too late
    world.run(500)
    assert task.result() == 2 and seen[-1] == "slept until 100"


def test_gather_waits_for_all_and_raises_the_first_failure() -> None:
    world = World()
    tasks = Tasks(world)
    ended: list[int] = []

    async def one(delay: int, fails: bool) -> int:
        await tasks.sleep(delay)
        ended.append(delay)
        if fails:
            raise ValueError(delay)
        return delay

    good = tasks.start(tasks.gather([one(30, False), one(10, False)]))
    failing = tasks.gather([one(20, True), one(50, False)])
    bad = tasks.start(failing, lambda outcome: None)
    world.run(100)
    assert good.result() == [30, 10]
    with pytest.raises(ValueError, match="20"):
        bad.result()
    assert ended == [10, 20, 30, 50]
    assert world.lines == []


def test_close_cancels_whatever_waits_and_whatever_comes() -> None:
    world = World()
    tasks = Tasks(world)
    cleaned: list[str] = []

    async def forever(name: str) -> None:
        try:
            await tasks.gather([tasks.sleep(1e9), tasks.sleep(1e9)])
        finally:
            cleaned.append(name)

    running = [tasks.start(forever("a")), tasks.start(forever("b"))]
    tasks.close()
    late = tasks.start(forever("c"))
    assert sorted(cleaned) == ["a", "b"]
    for task in (*running, late):
        with pytest.raises(Cancelled):
            task.result()
    world.run(2e9)
    assert world.lines == []


def test_a_task_that_cancels_itself_ends_at_its_next_wait() -> None:
    world = World()
    tasks = Tasks(world)
    seen: list[str] = []

    async def close() -> None:
        await tasks.sleep(10)
        tasks.close()
        seen.append("closed")
        await tasks.sleep(10)
        seen.append("went on")

    task = tasks.start(close())
    world.run(100)
    assert seen == ["closed"] and task.done


def test_a_failure_that_no_task_awaits_is_logged() -> None:
    world = World()

    async def fail() -> None:
        raise ValueError("lost")

    Tasks(world).start(fail())
    assert [line[1] for line in world.lines] == ["client.task_failed"]
