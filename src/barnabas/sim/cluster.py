"""A simulated cluster: machines with disks, nodes on them, and client processes.

Nodes are real :class:`barnabas.node.Node` objects on simulated ports; a node that dies is dropped, and
a new one is made on the same disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from barnabas.client.client import Client
from barnabas.config.node import NodeConfig
from barnabas.metadata.formatting import format_node
from barnabas.node import Node
from barnabas.sim.disk import SimDisk
from barnabas.sim.network import SimNetwork
from barnabas.sim.process import Machine, SimProcess
from barnabas.sim.world import START_WALL_MS, World
from barnabas.types import Endpoint

CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093


@dataclass(frozen=True)
class Topology:
    """What a seed's cluster is made of."""

    nodes: int = 3
    racks: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)


class SimNode:
    """One node's machine, and its present life if it has one."""

    def __init__(self, cluster: SimCluster, node_id: int, machine: Machine) -> None:
        self.cluster = cluster
        self.id = node_id
        self.machine = machine
        self.process: SimProcess | None = None
        self.node: Node | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive and self.node is not None

    def config(self) -> NodeConfig:
        return NodeConfig.from_properties(self.cluster.properties(self.id))

    def start(self) -> None:
        """A new process on the same disk."""
        if self.is_up:
            return
        world = self.cluster.world
        process = self.machine.start_process()
        process.on_halt = self._halted
        process.owner = self
        self.process = process
        config = self.config()
        format_node(
            process.disk, config, CLUSTER_ID, process.rng("format").randbytes, START_WALL_MS
        )
        world.note(f"start node {self.id} as {process.name}")
        node = Node(config, process)
        self.node = node
        try:
            node.start()
        except OSError as error:
            # An injected disk fault at start: the process ends, as a real one would.
            world.note(f"node {self.id} cannot start: {error}")
            self.kill()

    def kill(self, *, power_loss: bool = False) -> None:
        """kill -9, or the machine's power with it."""
        process, self.process, self.node = self.process, None, None
        if process is not None and process.alive:
            kind = "power loss" if power_loss else "kill -9"
            self.cluster.world.note(f"{kind} of node {self.id}")
            self.cluster.world.totals["power losses" if power_loss else "kills"] += 1
            process.kill(power_loss=power_loss)

    def shut_down(self, done: Callable[[], None] = lambda: None) -> None:
        """A controlled shutdown; the process is gone when it is done."""
        if not self.is_up:
            return
        assert self.node is not None and self.process is not None
        process = self.process
        self.cluster.world.note(f"shut down node {self.id}")
        self.cluster.world.totals["shutdowns"] += 1

        def finish() -> None:
            if self.process is process:
                process.kill()
                self.process = self.node = None
            done()

        self.node.begin_shutdown(finish)

    def _halted(self, process: SimProcess, reason: str) -> None:
        self.machine.network.process_died(process, silently=False)
        self.machine.disk.process_died(power_loss=False)
        if self.process is process:
            self.process = self.node = None


class SimCluster:
    """All machines of one world."""

    def __init__(self, world: World, topology: Topology) -> None:
        self.world = world
        self.topology = topology
        self.network = SimNetwork(world)
        self.machines: dict[str, Machine] = {}
        self.nodes: dict[int, SimNode] = {}
        for node_id in range(1, topology.nodes + 1):
            machine = self.add_machine(f"n{node_id}")
            self.nodes[node_id] = SimNode(self, node_id, machine)

    def add_machine(self, host: str) -> Machine:
        disk = SimDisk(self.world.rng(f"disk {host}"))
        machine = Machine(self.world, self.network, host, disk)
        machine.machines = self.machines
        self.machines[host] = machine
        return machine

    def properties(self, node_id: int) -> dict[str, str]:
        ids = range(1, self.topology.nodes + 1)
        replication = str(min(3, self.topology.nodes))
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(f"{i}@n{i}:{CONTROLLER_PORT}" for i in ids),
            "listeners": f"PLAINTEXT://n{node_id}:{CLIENT_PORT},"
            f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/data",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
            "min.insync.replicas": "2" if self.topology.nodes >= 3 else "1",
            "default.replication.factor": replication,
            "group.initial.rebalance.delay.ms": "100",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "3000",
        }
        if self.topology.racks:
            properties["broker.rack"] = f"r{node_id % self.topology.racks}"
        properties.update(self.topology.settings)
        return properties

    @property
    def bootstrap(self) -> list[Endpoint]:
        return [Endpoint(f"n{node_id}", CLIENT_PORT) for node_id in self.nodes]

    def up(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def start_all(self) -> None:
        for node in self.nodes.values():
            node.start()

    def client(self, name: str) -> Client:
        """A client in a process of its own, on a machine that never fails."""
        machine = self.machines.get(name) or self.add_machine(name)
        return Client(machine.start_process(), self.bootstrap, name)

    def active_controller(self) -> SimNode | None:
        """The node whose controller is active in the latest quorum epoch, if any."""
        active = [
            node for node in self.up() if node.node is not None and node.node.quorum.is_active
        ]
        return max(active, key=lambda n: n.node.quorum.epoch if n.node else -1, default=None)
