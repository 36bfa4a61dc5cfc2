"""A simulated cluster in ZooKeeper mode: brokers, of which any may be the controller, and an ensemble."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.broker.broker import Broker
from barnabas.config.node import NodeConfig
from barnabas.limits import NodeBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.node import Node
from barnabas.sim.cluster import SimCluster, SimNode, Topology
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
from barnabas.sim.zookeeper.ensemble import Ensemble
from barnabas.sim.zookeeper_mode.written_znodes import WrittenZnodes
from barnabas.zookeeper.controller.metadata_reader import METADATA_LEVEL
from barnabas.zookeeper.door import node_config
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode

OF_QUORUMS = (
    "broker.heartbeat.",
    "broker.session.",
    "controller.",
    "group.consumer.",
    "internal.metadata.",
    "log.dir.failure.",
    "metadata.",
    "node.id",
    "process.roles",
)
"""Prefixes of configuration keys that a broker in ZooKeeper mode does not have."""
SESSION_MS = (1_000, 60_000)
"""The shortest and the longest session timeout that the ensemble grants."""
NOTHING = MetadataImage()


@dataclass(frozen=True)
class ZookeeperTopology(Topology):
    """The nodes of a cluster in ZooKeeper mode."""

    servers: int = 3
    """Number of the ensemble's servers, on machines ``zookeeper1``, ``zookeeper2``, ..."""
    lag_ms: float = 0.0
    """The longest time, beside that of the network, that a server takes to apply a committed transaction."""

    @property
    def first_level(self) -> int:
        return METADATA_LEVEL


class ZookeeperSimNode(SimNode):
    """One broker: its machine, and its process while it is up."""

    zookeeper_node: ZookeeperNode | None = None

    @property
    def running(self) -> Node | ZookeeperNode | None:
        return self.zookeeper_node

    @property
    def broker(self) -> Broker | None:
        return None if self.zookeeper_node is None else self.zookeeper_node.broker

    @property
    def image(self) -> MetadataImage:
        """The broker's metadata image; empty until it has read the cluster id from ZooKeeper."""
        return NOTHING if self.broker is None else self.broker.image

    def config(self) -> NodeConfig:
        return node_config(self.cluster.properties(self.id))

    def _boot(self, process: SimProcess, config: NodeConfig) -> None:
        node = ZookeeperNode(config, process)
        node.start()
        self.zookeeper_node = node

    def _let_go(self) -> None:
        self.process = self.zookeeper_node = None


class ZookeeperCluster(SimCluster):
    """Brokers over the twin of an ensemble."""

    def __init__(
        self, world: World, topology: ZookeeperTopology, bounds: NodeBounds = NodeBounds()
    ) -> None:
        super().__init__(world, topology, bounds)
        hosts = [f"zookeeper{number}" for number in range(1, topology.servers + 1)]
        self.ensemble = Ensemble(
            world, self.network, hosts, machines=self.machines, timeout_ms=SESSION_MS
        )
        self.ensemble.lag_ms_max = topology.lag_ms
        self.written = WrittenZnodes(self.ensemble)

    def _make_node(self, node_id: int, machine: SimMachine) -> SimNode:
        return ZookeeperSimNode(self, node_id, machine)

    def properties(self, node_id: int) -> dict[str, str]:
        properties = {
            key: value
            for key, value in super().properties(node_id).items()
            if not key.startswith(OF_QUORUMS)
        }
        return {
            **properties,
            "broker.id": str(node_id),
            "listeners": f"PLAINTEXT://n{node_id}:{self.nodes[node_id].client_port}",
            "zookeeper.connect": self.ensemble.connect + "/kafka",
        }

    @property
    def brokers(self) -> list[ZookeeperSimNode]:
        """Those that are up."""
        return [node for node in self.up() if isinstance(node, ZookeeperSimNode)]

    @property
    def may_change_voters(self) -> bool:
        return False

    def active_controller(self) -> SimNode | None:
        """The broker that is the controller; of several that believe so, the one of the latest epoch."""
        active = [
            node
            for node in self.brokers
            if node.zookeeper_node and node.zookeeper_node.is_controller
        ]
        return max(active, key=_epoch, default=None)


def _epoch(node: ZookeeperSimNode) -> int:
    leadership = (
        node.zookeeper_node.election.leadership if node.zookeeper_node is not None else None
    )
    return -1 if leadership is None else leadership.epoch
