"""Simulated clients: what their tasks object to is heard."""

from __future__ import annotations

import pytest

from barnabas.client.network.channels import ChannelError
from barnabas.sim.cluster import SimCluster, Topology
from barnabas.sim.history import Violation
from barnabas.sim.world.world import World


def test_a_judges_objection_within_a_clients_task_ends_the_run() -> None:
    world = World(1)
    client = SimCluster(world, Topology(1)).client("c")

    async def end_with(error: Exception) -> None:
        raise error

    client.tasks.start(end_with(ChannelError("closed", "what a program has to expect")))
    client.tasks.start(end_with(Violation("two members were given one partition")))
    with pytest.raises(Violation, match="two members"):
        while world.step():
            pass
