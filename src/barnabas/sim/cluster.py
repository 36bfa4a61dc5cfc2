"""A simulated cluster: machines with disks, nodes on them, and client processes.

Nodes are real :class:`barnabas.node.Node` objects on simulated ports. When a node dies its object is dropped;
a restart makes a new one on the same disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from barnabas.broker.broker import Broker
from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.connection import NO_BOUNDS
from barnabas.client.network.legacy_requests import Newest
from barnabas.config.meta_properties import FILE_NAME, MetaProperties
from barnabas.config.node import NodeConfig
from barnabas.limits import NodeBounds
from barnabas.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.storage_format import format_node
from barnabas.node import Node
from barnabas.ports import Disk
from barnabas.raft.bootstrap_snapshot import write_first_snapshot
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from barnabas.security.client_security import OPEN, ClientSecurity
from barnabas.sim import secured
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import START_WALL_MS, Killed, World
from barnabas.types import Endpoint, NodeId, Uuid
from barnabas.wire.errors import KafkaError
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode

CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093


@dataclass(frozen=True)
class Topology:
    """The nodes of a cluster. Brokers are nodes 1, 2, ... on machines ``n1``, ``n2``, ...; controllers
    that are not brokers are nodes 101, 102, ..."""

    nodes: int = 3
    """Number of brokers; each is a controller as well, unless there are `controllers`."""
    racks: int = 0
    """Number of racks over which the brokers are spread; with 0 no broker has a rack."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of every node's ``server.properties``; they replace those of the simulator."""
    controllers: int = 0
    """Number of controllers that are not brokers; with 0 every broker is a controller."""
    voters: int = 0
    """Number of controllers that vote at first in a dynamic quorum; 0 is all of them."""
    dynamic: bool = False
    """Whether the metadata log holds the voter set (KIP-853), not the settings of every node."""
    directories: int = 1
    """Number of log directories of each broker; the first one also holds the metadata log."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Feature, such as ``metadata.version``, → its level where that is not the newest."""
    lives_differ: bool = False
    """Whether each process draws how its clock and its disk behave: a restart may change that."""
    is_secured: bool = False
    """Whether every connection authenticates and ACLs authorize every request."""

    @property
    def first_level(self) -> int:
        """The metadata.version with which the cluster begins."""
        return self.features.get(METADATA_VERSION, LATEST_METADATA_VERSION)

    @property
    def broker_ids(self) -> range:
        return range(1, self.nodes + 1)

    @property
    def controller_ids(self) -> range:
        return range(101, 101 + self.controllers) if self.controllers else self.broker_ids

    @property
    def node_ids(self) -> list[int]:
        return sorted({*self.broker_ids, *self.controller_ids})

    @property
    def first_voters(self) -> list[int]:
        """Ids of the voters when the cluster begins."""
        ids = list(self.controller_ids)
        return ids[: self.voters] if self.dynamic and self.voters else ids


class SimNode:
    """One node: its machine, and its process while it is up."""

    def __init__(self, cluster: SimCluster, node_id: int, machine: SimMachine) -> None:
        self.cluster = cluster
        self.id = node_id
        self.machine = machine
        self.process: SimProcess | None = None
        self.node: Node | None = None
        self.needs_format = True
        """Whether the next start formats: at first, and after a directory was replaced."""
        self._was_formatted = False
        self.is_leaving = False
        """Whether a controlled shutdown of its present process has begun."""
        self._when_gone: list[Callable[[], None]] = []
        topology = cluster.topology
        count = topology.directories if node_id in topology.broker_ids else 1
        self.directories = ["/data", *(f"/data{n}" for n in range(2, count + 1))]
        """Its ``log.dirs`` from the next start on; the first one also holds the metadata log."""
        self.moved = 0
        """Difference between its ports and the usual ones, from the next start on."""
        self.halted_by = ""
        """Why its last process halted itself; empty while none did."""
        self.knew_to = -1
        """The highest high watermark of the metadata log that any of its former processes knew."""
        self.before_start: list[Callable[[], None]] = []
        """Repairs that the next start makes first."""

    @property
    def client_port(self) -> int:
        return CLIENT_PORT + self.moved

    @property
    def controller_port(self) -> int:
        return CONTROLLER_PORT + self.moved

    @property
    def running(self) -> Node | ZookeeperNode | None:
        """The node object in its process."""
        return self.node

    @property
    def broker(self) -> Broker | None:
        """Its broker, if the node has that role and is up."""
        return None if self.node is None else self.node.broker

    @property
    def image(self) -> MetadataImage:
        """The metadata image of a node that is up."""
        assert self.node is not None
        return self.node.metadata.image

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive and self.running is not None

    def config(self) -> NodeConfig:
        return NodeConfig.from_properties(self.cluster.properties(self.id))

    def start(self) -> None:
        """Start a new process on the same disk. Does nothing where the node is up."""
        if self.is_up:
            return
        world = self.cluster.world
        if self.process is not None and not self.process.alive:
            # The former process is halting in this event, and holds its locks and its address until the event
            # ends.
            world.after(0.0, self.start)
            return
        while self.before_start:
            self.before_start.pop()()
        process = self.machine.start_process(owner=self)
        process.bounds = self.cluster.bounds
        self.process = process
        self.is_leaving = False
        config = self.config()
        world.note(f"start node {self.id} as {process.name}")
        try:
            self._boot(process, config)
        except OSError as error:
            # An injected disk fault at start: the process ends, as a real one would.
            world.note(f"node {self.id} cannot start: {error}")
            self.kill()
        except Killed:
            pass

    def _boot(self, process: SimProcess, config: NodeConfig) -> None:
        node = Node(config, process)
        if self.needs_format:
            self._format(process, config)
        node.start()
        self.node = node

    def _format(self, process: SimProcess, config: NodeConfig) -> None:
        """Format the directories as ``barnabas storage format`` does.

        Not every start formats, as operators do not format at every start: so a node also meets directories
        that it cannot read. A directory that was replaced is formatted again; only the first format writes
        the voter set.
        """
        topology = self.cluster.topology
        made = format_node(
            process.disk,
            config,
            CLUSTER_ID,
            process.rng("format").randbytes,
            START_WALL_MS,
            features=topology.features,
        )
        if topology.dynamic and config.metadata_log_dir in made and not self._was_formatted:
            if self.id in topology.first_voters:
                voters = self.cluster.first_voters
                write_identity(
                    process.disk, config.metadata_log_dir, CLUSTER_ID, voters.nodes[self.id].key
                )
                write_first_snapshot(process.disk, config.metadata_log_dir, voters, START_WALL_MS)
        self._was_formatted, self.needs_format = True, False

    def kill(self, *, power_loss: bool = False) -> None:
        """kill -9 of the process; with `power_loss` the machine loses its power as well."""
        process = self.process
        self._let_go()
        if process is not None and process.alive:
            kind = "power loss" if power_loss else "kill -9"
            self.cluster.world.note(f"{kind} of node {self.id}")
            self.cluster.world.totals["power losses" if power_loss else "kills"] += 1
            process.kill(power_loss=power_loss)
        self._tell_gone()

    def shut_down(self, done: Callable[[], None] = lambda: None) -> None:
        """Begin a controlled shutdown; `done` is called when the process has ended for any reason.

        Does nothing, and never calls `done`, where the node is not up.
        """
        running, process = self.running, self.process
        if not self.is_up or running is None or process is None:
            return
        self.cluster.world.note(f"shut down node {self.id}")
        self.cluster.world.totals["shutdowns"] += 1
        self.is_leaving = True
        self._when_gone.append(done)

        def finish() -> None:
            if self.process is process:
                process.kill()
                self._let_go()
                self._tell_gone()

        try:
            running.begin_shutdown(finish)
        except Killed:
            pass

    def on_halt(self, process: SimProcess, reason: str) -> None:
        """Its process has halted itself."""
        self.machine.network.process_died(process, silently=False)
        self.machine.disk.process_died(power_loss=False)
        if self.process is process:
            self._let_go()
            self.halted_by = reason
            self._tell_gone()
            for follower in reversed(self.cluster.halt_followers):
                follower(self)

    def _let_go(self) -> None:
        """Forget the process, which has ended."""
        if self.node is not None:
            self.knew_to = max(self.knew_to, self.node.quorum.high_watermark)
        self.process = self.node = None

    def _tell_gone(self) -> None:
        """Call the callbacks of `shut_down`, also where a fault ended the process first."""
        waiting, self._when_gone = self._when_gone, []
        for done in waiting:
            self.cluster.world.after(0.0, done)


def write_identity(disk: Disk, directory: str, cluster_id: str, key: ReplicaKey) -> None:
    """Write the directory id that the first voter set names into a formatted directory."""
    meta = MetaProperties(cluster_id, NodeId(key.id), key.directory_id)
    disk.write_atomic(f"{directory}/{FILE_NAME}", meta.format_text().encode())


class SimCluster:
    """All machines of one world."""

    def __init__(self, world: World, topology: Topology, bounds: NodeBounds = NodeBounds()) -> None:
        self.world = world
        self.bounds = bounds
        """The bounds of every node."""
        self.topology = topology
        self.network = SimNetwork(world)
        self.machines: dict[str, SimMachine] = {}
        self.nodes: dict[int, SimNode] = {}
        self.halt_followers: list[Callable[[SimNode], None]] = []
        """They get a node whose process halted itself (for example because its disk failed), the latest one
        first."""
        self.loss_followers: list[Callable[[], None]] = []
        """They are called when an operator gives up committed metadata: no earlier promise holds any more."""
        self.is_healed = False
        """Whether all faults are over. A fault with several steps, such as a rolling restart, stops then."""
        for node_id in topology.node_ids:
            machine = self.add_machine(f"n{node_id}")
            if topology.lives_differ:
                machine.lives_differ = True
                machine.disk.lives_rng = world.rng(f"lives n{node_id}")
            self.nodes[node_id] = self._make_node(node_id, machine)

    def _make_node(self, node_id: int, machine: SimMachine) -> SimNode:
        return SimNode(self, node_id, machine)

    def add_machine(self, host: str) -> SimMachine:
        disk = SimDisk(self.world.rng(f"disk {host}"))
        machine = SimMachine(self.world, self.network, host, disk)
        machine.machines = self.machines
        self.machines[host] = machine
        return machine

    @property
    def first_voters(self) -> VoterSet:
        """The first voter set of a dynamic quorum, with the directory ids that formatting writes."""
        return VoterSet.of(
            *(
                VoterNode(
                    ReplicaKey(node_id, directory_id(node_id)),
                    {"CONTROLLER": Endpoint(f"n{node_id}", CONTROLLER_PORT)},
                    KRAFT_VERSIONS,
                )
                for node_id in self.topology.first_voters
            )
        )

    def properties(self, node_id: int) -> dict[str, str]:
        """The ``server.properties`` of one node."""
        topology = self.topology
        replication = str(min(3, topology.nodes))
        properties = {
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.num.partitions": "2",
            "transaction.two.phase.commit.enable": "true",
            "transaction.state.log.min.isr": "2" if topology.nodes >= 3 else "1",
            "min.insync.replicas": "2" if topology.nodes >= 3 else "1",
            "default.replication.factor": replication,
            "group.initial.rebalance.delay.ms": "100",
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "1500",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "3000",
            **self._roles(node_id),
            **self._quorum(),
        }
        if topology.racks and node_id in topology.broker_ids:
            properties["broker.rack"] = f"r{node_id % topology.racks}"
        if topology.is_secured:
            properties.update(secured.node_settings())
        properties.update(topology.settings)
        return properties

    def _roles(self, node_id: int) -> dict[str, str]:
        topology, roles, listeners = self.topology, [], []
        node = self.nodes[node_id]
        if node_id in topology.broker_ids:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://n{node_id}:{node.client_port}")
        if node_id in topology.controller_ids:
            roles.append("controller")
            listeners.append(f"CONTROLLER://n{node_id}:{node.controller_port}")
        return {
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "log.dirs": ",".join(node.directories),
        }

    def _quorum(self) -> dict[str, str]:
        ids = self.topology.controller_ids
        if self.topology.dynamic:
            servers = ",".join(f"n{i}:{CONTROLLER_PORT}" for i in ids)
            return {"controller.quorum.bootstrap.servers": servers}
        return {"controller.quorum.voters": ",".join(f"{i}@n{i}:{CONTROLLER_PORT}" for i in ids)}

    @property
    def bootstrap(self) -> list[Endpoint]:
        return [Endpoint(f"n{node_id}", CLIENT_PORT) for node_id in self.topology.broker_ids]

    def up(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def start_all(self) -> None:
        for node in self.nodes.values():
            node.start()

    def client(
        self,
        name: str,
        newest: Newest = NO_BOUNDS,
        user: str = "admin",
        mechanism: str = "PLAIN",
        security: ClientSecurity | None = None,
    ) -> Client:
        """A client in a process of its own, on a machine that never fails.

        An exception that its tasks do not catch, a checker's Violation or a bug of the client, ends the run.
        `user` and `mechanism` have an effect in a secured cluster only; `security` replaces them.
        """
        machine = self.machines.get(name) or self.add_machine(name)
        if security is None:
            security = secured.security_of(user, mechanism) if self.topology.is_secured else OPEN
        return Client(
            machine.start_process(),
            self.bootstrap,
            name,
            newest=newest,
            security=security,
            on_lost=self._end_with,
        )

    def _end_with(self, error: BaseException) -> None:
        """End the run with `error`, unless programs have to expect it or a program's callback raised it."""
        if isinstance(error, ChannelError | KafkaError | ProgramFault):
            return

        def end() -> None:
            raise error

        self.world.at(self.world.now_ms, end)

    @property
    def may_change_voters(self) -> bool:
        """Whether the quorum is dynamic: from the beginning, or by now as far as a running node knows."""
        nodes = [node.node for node in self.up() if node.node is not None]
        return self.topology.dynamic or any(node.quorum.kraft_version > 0 for node in nodes)

    def active_controller(self) -> SimNode | None:
        """The node whose controller is active in the latest quorum epoch, if any."""
        active = [
            node for node in self.up() if node.node is not None and node.node.quorum.is_active
        ]
        return max(active, key=lambda n: n.node.quorum.epoch if n.node else -1, default=None)


class ProgramFault(Exception):
    """Raised by callbacks of client programs now and then: it must affect no other component."""


def directory_id(node_id: int) -> Uuid:
    """The id of the metadata directory with which `node_id` begins in a dynamic quorum."""
    return Uuid(bytes(12) + (0x51A0_0000 + node_id).to_bytes(4, "big"))
