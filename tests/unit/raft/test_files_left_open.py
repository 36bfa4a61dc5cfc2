"""A quorum that cannot be opened leaves nothing open: the same process may try again."""

from __future__ import annotations

import pytest

from barnabas.client.network.channels import Channels
from barnabas.raft.embedded import EmbeddedReplica
from barnabas.raft.raft_node import RaftNode
from barnabas.sim.world.disk import ProcessDisk, SimDisk, SimFile
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
from barnabas.types import Endpoint
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.server import RequestServer
from tests.unit.raft.quorum_world import Journal, Quorum
from tests.unit.raft.test_failing_disk import TIGHT, commit

PEERS = {1: Endpoint("n1", 9093)}


class Opened(list[SimFile]):
    @property
    def left(self) -> list[str]:
        return [file.path for file in self if file._open]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    files, open_file = Opened(), ProcessDisk.open

    def recorded(disk: ProcessDisk, path: str, *, create: bool = False) -> SimFile:
        files.append(open_file(disk, path, create=create))
        return files[-1]

    monkeypatch.setattr(ProcessDisk, "open", recorded)
    return files


def open_member(process: SimProcess) -> EmbeddedReplica:
    return EmbeddedReplica.open(
        process, "/data", cluster_id="c", node_id=1, peers=PEERS, state_machine=Journal()
    )


def test_a_member_whose_port_is_taken(opened: Opened) -> None:
    world = World(1)
    process = SimMachine(world, SimNetwork(world), "n1", SimDisk(world.rng("disk"))).start_process()
    taken = process.network.listen(PEERS[1], RequestServer(process, "L", ApiTable()).accept)
    with pytest.raises(OSError):
        open_member(process)
    assert opened.left == []
    taken.close()
    member = open_member(process)
    member.start()
    assert world.run(world.now_ms + 5_000, lambda: member.replica.is_active)
    member.replica.append([b"a"])
    assert opened.left


@pytest.mark.slow
def test_a_replica_whose_disk_refuses_a_call(opened: Opened) -> None:
    """The first, the second, ... until none is hit; with a snapshot and several segments."""
    quorum = Quorum(3, voters=1, **TIGHT)
    node = quorum.nodes[1]
    quorum.start()
    quorum.elect()
    for number in range(30):
        commit(node, b"%d" % number, [])
    node.kill()
    failures = 0
    for number in range(1, 500):
        process = node.machine.start_process()
        opened.clear()
        node.machine.disk.fail_call(number)
        channels = Channels(process, "test")
        try:
            RaftNode.open(process, node.settings, "/data", channels, Journal()).close()
        except OSError:
            failures += 1
        assert opened.left == [], number
        process.kill()
        if not node.machine.disk.fault_was_hit:
            break
    assert failures > 10
