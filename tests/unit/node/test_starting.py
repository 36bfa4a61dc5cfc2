"""A node that cannot start leaves nothing of its own behind in its process."""

from __future__ import annotations

import pytest

from barnabas.broker.broker import Broker
from barnabas.config.meta_properties import DirectoryError, zookeeper_owner_text
from barnabas.config.node import NodeConfig
from barnabas.node.node import Node
from barnabas.raft.core.election_state import QuorumStateError
from barnabas.raft.raft_node import RaftNode
from barnabas.sim.cluster import CLIENT_PORT, CONTROLLER_PORT, SimCluster
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
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


@pytest.mark.parametrize("step", ["__init__", "start"])
def test_a_broker_that_cannot_be_made_or_started_leaves_nothing_open(
    sim: SimCluster, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[RaftNode] = []
    close = RaftNode.close

    def recorded(replica: RaftNode, *, clean: bool = False) -> None:
        closed.append(replica)
        close(replica, clean=clean)

    def fail(*arguments: object, **named: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(RaftNode, "close", recorded)
    monkeypatch.setattr(Broker, step, fail)
    process = sim.nodes[1].machine.start_process()
    node = Node(sim.nodes[1].config(), process)
    with pytest.raises(OSError):
        node.start()
    assert closed == [node.quorum]
    for port in (CLIENT_PORT, CONTROLLER_PORT):
        listen(process, port)


def test_a_node_whose_log_dirs_change_order_keeps_its_logs() -> None:
    cluster = Cluster(1, log_dirs="/data,/second")
    cluster.create_topic("t")
    node = cluster.sim.nodes[1]
    node.kill()
    swapped = NodeConfig.from_properties({**node.config().properties, "log.dirs": "/second,/data"})
    with pytest.raises(DirectoryError, match="/data has this node's metadata log"):
        Node(swapped, node.machine.start_process()).start()


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("meta.properties", "a copy of it belongs here"),
        ("__cluster_metadata-0/quorum-state", "put back a copy, or remove this voter"),
        ("t-0/partition.metadata", "write the topic's id into it"),
    ],
)
@pytest.mark.parametrize("damage", [b"\x9c\x00\xff\x07" * 20, bytes(80)], ids=["random", "zeros"])
def test_a_damaged_file_is_named_with_what_to_do(file: str, remedy: str, damage: bytes) -> None:
    """None of these can be made again from the logs."""
    cluster = Cluster(1)
    cluster.create_topic("t")
    cluster.produce([b"value"])
    node, ended = cluster.sim.nodes[1], list[bool]()
    node.shut_down(lambda: ended.append(True))
    cluster.run(60_000)
    assert ended
    process = node.machine.start_process()
    process.disk.write_atomic(f"{node.config().metadata_log_dir}/{file}", damage)
    with pytest.raises((DirectoryError, QuorumStateError, OSError)) as refused:
        Node(node.config(), process).start()
    assert file in str(refused.value)
    assert remedy in str(refused.value)


def test_a_directory_of_before_directory_ids_is_served() -> None:
    """As Kafka's brokers do with those of 3.6 and older."""
    cluster = Cluster(1)
    node = cluster.sim.nodes[1]
    node.kill()
    process = node.machine.start_process()
    path = f"{node.config().metadata_log_dir}/meta.properties"
    lines = process.disk.read_file(path).splitlines(keepends=True)
    short = b"".join(line for line in lines if not line.startswith(b"directory.id"))
    process.disk.write_atomic(path, short)
    Node(node.config(), process).start()
    assert b"directory.id=" in process.disk.read_file(path)


BROKER = NodeConfig.from_properties(
    {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.voters": "101@n101:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://n1:9092",
        "log.dirs": "/data",
    }
)


def once_on_zookeeper(world: World) -> SimProcess:
    """A process of a broker on ZooKeeper that is to start under KRaft."""
    machine = SimMachine(world, SimNetwork(world), "n1", SimDisk(world.rng("disk")))
    process = machine.start_process()
    process.disk.make_dirs("/data")
    text = zookeeper_owner_text("c2ltdWxhdGVkLWNsdXN0ZQ", 1)
    process.disk.write_atomic("/data/meta.properties", text.encode())
    return process


def test_a_broker_from_zookeeper_forgets_the_quorum_of_an_earlier_migration() -> None:
    """The copy of a stopped cluster begins another one, whose first offsets and epochs are the same."""
    world = World(1)
    process = once_on_zookeeper(world)
    process.disk.make_dirs("/data/__cluster_metadata-0")
    former = f"/data/__cluster_metadata-0/{0:020d}.log"
    process.disk.write_atomic(former, b"of another quorum")
    Node(BROKER, process).start()
    assert process.disk.size(former) == 0
    world.let_go()


def test_a_disk_that_fails_at_the_start_is_no_foreign_directory() -> None:
    """Its file of ZooKeeper mode is rewritten by the first start under KRaft."""
    failed = 0
    for nth in range(1, 9):
        world = World(nth)
        process = once_on_zookeeper(world)
        process.machine.disk.fail_call(nth, prefix="/data")
        try:
            Node(BROKER, process).start()
        except OSError:
            failed += 1
        world.let_go()
    assert failed > 3
