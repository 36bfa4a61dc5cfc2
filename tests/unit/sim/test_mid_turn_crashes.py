"""A process dies between two calls on its disk: what it has done stays, the rest of its turn never comes."""

from __future__ import annotations

import random

import pytest

from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import Killed, World


@pytest.mark.parametrize("in_background", [False, True])
def test_a_process_dies_within_a_turn(in_background: bool) -> None:
    world, disk = World(1), SimDisk(random.Random(1))
    process = SimMachine(world, SimNetwork(world), "a", disk).start_process()
    told: list[object] = []

    def die_at(path: str) -> None:
        if path == "/second":
            disk.hooks.stop_waiting(die_at)
            process.kill()
            raise Killed

    def work() -> None:
        for path in ("/first", "/second", "/third"):
            process.disk.make_dirs(path)

    disk.hooks.lie_in_wait(die_at)
    if in_background:
        process.background.run("queue", work, told.append)
    else:
        process.wakeups.call_soon(work)
    process.wakeups.call_at(50.0, lambda: told.append("it lives"))
    world.run(100.0)
    assert disk.below("/") == ["/first"]
    assert not process.alive and not told
