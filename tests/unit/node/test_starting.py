"""A node that cannot start leaves nothing of its own behind in its process."""

from __future__ import annotations

import pytest

from barnabas.broker.broker import Broker
from barnabas.node.node import Node
from barnabas.raft.driver import QuorumReplica
from barnabas.sim.cluster import CLIENT_PORT, CONTROLLER_PORT, SimCluster
from barnabas.sim.process import SimProcess
from barnabas.types import Endpoint
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.server import RequestServer
from tests.unit.broker.world import Cluster


@pytest.fixture
def sim() -> SimCluster:
    """One node, which has been there."""
    cluster = Cluster(1)
    cluster.sim.nodes[1].kill()
    return cluster.sim


def listen(process: SimProcess, port: int) -> None:
    """Raises ``OSError`` where it is taken."""
    server = RequestServer(process, "L", ApiTable())
    process.network.listen(Endpoint("n1", port), server.accept).close()


@pytest.mark.parametrize("taken", [CLIENT_PORT, CONTROLLER_PORT])
def test_a_port_that_is_taken_leaves_the_other_free(sim: SimCluster, taken: int) -> None:
    process = sim.nodes[1].machine.start_process()
    server = RequestServer(process, "L", ApiTable())
    other = process.network.listen(Endpoint("n1", taken), server.accept)
    node = Node(sim.nodes[1].config(), process)
    with pytest.raises(OSError):
        node.start()
    other.close()
    for port in (CLIENT_PORT, CONTROLLER_PORT):
        listen(process, port)


def test_a_broker_that_cannot_be_made_leaves_no_quorum_open(
    sim: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[QuorumReplica] = []
    close = QuorumReplica.close

    def recorded(replica: QuorumReplica, *, clean: bool = False) -> None:
        closed.append(replica)
        close(replica, clean=clean)

    def fail(*arguments: object, **named: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(QuorumReplica, "close", recorded)
    monkeypatch.setattr(Broker, "__init__", fail)
    node = Node(sim.nodes[1].config(), sim.nodes[1].machine.start_process())
    with pytest.raises(OSError):
        node.start()
    assert closed == [node.quorum]
