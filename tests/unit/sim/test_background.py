"""Background jobs of a simulated process take their own time, as those on threads do."""

from __future__ import annotations

import random

from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World

DIRECTORIES = ["/first", "/second", "/third"]


class Stepping:
    """A process whose jobs stop before each of their calls."""

    def __init__(self) -> None:
        self.world, self.disk = World(1), SimDisk(random.Random(1))
        machine = SimMachine(self.world, SimNetwork(self.world), "a", self.disk)
        self.process: SimProcess = machine.start_process()
        self.process.background._step_rate = 1.0
        self.process.background._stop_rates = (1.0,)
        self.told: list[object] = []
        self.process.background.run("queue", self.work, self.told.append)

    def work(self) -> str:
        for path in DIRECTORIES:
            self.process.disk.make_dirs(path)
        return "done"

    def run_until_some_are_there(self) -> None:
        while not self.disk.below("/"):
            assert self.world.step()


def test_other_work_runs_between_the_calls_of_a_job() -> None:
    stepping = Stepping()
    stepping.run_until_some_are_there()
    assert stepping.disk.below("/") == DIRECTORIES[:1] and not stepping.told
    stepping.process.disk.make_dirs("/between")
    stepping.world.run(200.0)
    assert stepping.disk.below("/") == ["/first", "/between", "/second", "/third"]
    assert stepping.told == ["done"]


def test_a_job_that_has_stopped_dies_with_its_process() -> None:
    stepping = Stepping()
    stepping.run_until_some_are_there()
    stepping.process.kill()
    stepping.world.run(200.0)
    assert stepping.disk.below("/") == DIRECTORIES[:1] and not stepping.told
    assert not stepping.process.background.stopped


def test_the_next_job_may_be_over_before_the_node_has_heard_of_the_first() -> None:
    process = SimMachine(
        world := World(1), SimNetwork(world), "a", SimDisk(random.Random(1))
    ).start_process()
    process.background._eager_rate = 1.0
    told: list[str] = []
    for name in ("one", "two"):
        process.background.run(
            "queue",
            lambda name=name: told.append(f"job {name}"),  # type: ignore[misc]
            lambda _, name=name: told.append(f"heard of {name}"),  # type: ignore[misc]
        )
    world.run(100.0)
    assert told == ["job one", "job two", "heard of one", "heard of two"]
