"""A replica in a few lines: what it keeps, and whose directory it refuses."""

from __future__ import annotations

import pytest

from barnabas.config.meta_properties import DirectoryError
from barnabas.raft.embedded import EmbeddedReplica
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
from barnabas.types import Endpoint
from tests.unit.raft.quorum_world import Journal

PEERS = {node: Endpoint(f"n{node}", 9093) for node in (1, 2, 3)}


def open_member(
    process: SimProcess, node: int, journal: Journal, name: str = "mine"
) -> EmbeddedReplica:
    return EmbeddedReplica.open(
        process, "/data", cluster_id=name, node_id=node, peers=PEERS, state_machine=journal
    )


def test_three_members_and_an_observer_agree_and_come_back_as_themselves() -> None:
    world = World(1)
    network = SimNetwork(world)
    machines = {
        node: SimMachine(world, network, f"n{node}", SimDisk(world.rng(f"disk-{node}")))
        for node in (1, 2, 3, 4)
    }
    journals = {node: Journal() for node in machines}
    processes = {node: machine.start_process() for node, machine in machines.items()}
    members = {node: open_member(processes[node], node, journals[node]) for node in machines}
    for member in members.values():
        member.start()

    def active() -> EmbeddedReplica | None:
        return next((m for m in members.values() if m.replica.is_active), None)

    assert world.run(world.now_ms + 30_000, lambda: active() is not None)
    leader = active()
    assert leader is not None
    leader.replica.append([b"a", b"b"])
    assert world.run(
        world.now_ms + 30_000, lambda: all(j.values == [b"a", b"b"] for j in journals.values())
    )
    assert not members[4].replica.settings.can_vote
    identity = members[1].replica.settings.directory_id

    left: list[bool] = []
    members[1].shutdown(lambda: left.append(True))
    assert world.run(world.now_ms + 5_000, lambda: bool(left))
    processes[1].kill()
    for node, name in ((2, "mine"), (1, "other")):
        process = machines[1].start_process()
        with pytest.raises(DirectoryError, match="belongs to node 1 of cluster mine"):
            open_member(process, node, Journal(), name)
        process.kill()
    again = open_member(machines[1].start_process(), 1, Journal())
    assert again.replica.settings.directory_id == identity
