"""Formatting a controller as the whole quorum is refused where the cluster has one already."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.connection import first_voters
from barnabas.cli.connection.duplicate_quorum_check import OtherQuorum, find_quorum, look_around
from barnabas.cli.connection.first_voters import FirstVoters
from barnabas.cli.failure import Failure
from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.process import SimMachine
from barnabas.types import Endpoint
from tests.unit.raft.quorum_world import CLUSTER, PORT, Quorum

HERE = Endpoint("127.0.0.1", 1)


def seen_from_outside(quorum: Quorum, *nodes: int, cluster_id: str = CLUSTER) -> OtherQuorum | None:
    """What a process on another machine finds that asks `nodes`, in this order."""
    world = quorum.world
    machine = SimMachine(world, quorum.network, "outside", SimDisk(world.rng("outside")))
    machine.machines = next(iter(quorum.nodes.values())).machine.machines
    channels = Channels(machine.start_process(), "format")
    found: list[OtherQuorum | None] = []
    servers = [Endpoint(f"n{node}", PORT) for node in nodes]
    look_around(channels, cluster_id, servers, found.append)
    quorum.run_until(lambda: bool(found))
    return found[0]


def test_any_node_of_it_says_who_leads() -> None:
    quorum = Quorum(1, observers=1)
    quorum.start()
    leader = quorum.elect()
    for node in (1, 2, 3):
        found = seen_from_outside(quorum, node)
        assert found is not None
        assert (found.leader_id, found.said_by.host) == (leader.id, f"n{node}")
        assert f"led by node {leader.id}, in epoch {found.epoch}" in str(found)


def test_a_quorum_of_which_most_are_down_is_one() -> None:
    quorum = Quorum(2)
    quorum.start()
    leader = quorum.elect()
    epoch = leader.replica.epoch if leader.replica is not None else -1
    left = next(node for node in quorum.nodes.values() if node is not leader)
    for node in quorum.nodes.values():
        if node is not left:
            node.kill()
    quorum.world.run(quorum.world.now_ms + 20_000)
    left.kill()
    left.start()  # also where it has forgotten who led
    found = seen_from_outside(quorum, 1, 2, 3)
    assert found is not None and found.epoch >= epoch
    assert found.said_by.host == f"n{left.id}"


@pytest.mark.slow
def test_other_clusters_and_those_who_wait_to_be_added_are_none() -> None:
    quorum = Quorum(3, voters=2, first_voters=0)
    quorum.start()
    quorum.world.run(5_000)
    assert seen_from_outside(quorum, 1, 2) is None
    other = Quorum(4)
    other.start()
    other.elect()
    assert seen_from_outside(other, 1, 2, 3, cluster_id="c29tZWJvZHktZWxzZXMtMQ") is None


def test_a_silent_or_absent_node_delays_the_check_briefly() -> None:
    quorum = Quorum(5)
    quorum.start()
    leader = quorum.elect()
    others = [node for node in quorum.nodes.values() if node is not leader]
    others[0].kill()
    assert others[1].process is not None
    others[1].process.pause(60_000)
    began = quorum.world.now_ms
    found = seen_from_outside(quorum, others[0].id, others[1].id, leader.id)
    assert found is not None and found.leader_id == leader.id
    assert quorum.world.now_ms - began < 1_500
    assert find_quorum(CLUSTER, [HERE]) is None, "no listener there"
    assert find_quorum(CLUSTER, []) is None


def _config(directory: Path) -> NodeConfig:
    return NodeConfig.from_properties(
        {
            "process.roles": "controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
            "controller.listener.names": "CONTROLLER",
            "listeners": "CONTROLLER://127.0.0.1:2",
            "log.dirs": str(directory),
        }
    )


def test_a_second_standalone_quorum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[Endpoint]] = []

    def found(cluster_id: str, servers: list[Endpoint]) -> OtherQuorum:
        asked.append(servers)
        return OtherQuorum(-1, 7, servers[0])

    monkeypatch.setattr(first_voters, "find_quorum", found)
    first = FirstVoters(_config(tmp_path), True, "", False)
    with pytest.raises(Failure, match="has a quorum already, without a leader now, in epoch 7"):
        first.check_alone(CLUSTER)
    assert asked == [[Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 3)]], "not itself"
    FirstVoters(_config(tmp_path), False, "", True).check_alone(CLUSTER)
    assert len(asked) == 1, "who waits to be added may always be formatted"
