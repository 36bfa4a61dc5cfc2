"""A simulated cluster that migrates: a broker changes its mode with a start, and controllers come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

from barnabas.broker.broker import Broker
from barnabas.config.node import NodeConfig
from barnabas.controller.migration_state import ZkMigrationState
from barnabas.limits import NodeBounds
from barnabas.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.storage_format import format_node
from barnabas.node import Node
from barnabas.raft.core.states import Leader
from barnabas.sim.cluster import CONTROLLER_PORT, SimCluster, SimNode
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import START_WALL_MS, World
from barnabas.sim.zookeeper_mode.cluster import (
    ZookeeperCluster,
    ZookeeperSimNode,
    ZookeeperTopology,
)
from barnabas.wire.schema import Message
from barnabas.zookeeper.door import quorum_node
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CLUSTER_ID,
    CONTROLLER,
    ClusterIdZnode,
    ControllerZnode,
)
from barnabas.zookeeper.migration.online_migration import OnlineMigration
from barnabas.zookeeper.node.migrating_controller import MigratingController
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode
from barnabas.zookeeper.session_keeper import SessionKeeper

FIRST_CONTROLLER = 101
ENABLE = "zookeeper.metadata.migration.enable"


class Mode(Enum):
    """The mode that a node's file gives it in the migration."""

    ZOOKEEPER = "ZooKeeper"
    """A broker that ZooKeeper coordinates."""
    MIGRATING = "migrating"
    """Such a broker that is registered with the quorum, too; a controller that migrates."""
    KRAFT = "KRaft"
    """A broker or a controller of a quorum, without ``zookeeper.connect``."""


@dataclass(frozen=True)
class AttemptPlan:
    """One attempt to migrate, and how far it is taken."""

    ends: str
    """``back``: the way back is taken. ``final``: the migration is. ``both``: dual write stays."""
    waits: bool = True
    """Whether the operator waits for dual write; else the way back is taken at any time."""
    under_kraft: int = 0
    """Number of brokers that are restarted under KRaft before the way back is taken."""
    is_stopped: bool = False
    """Whether the cluster is stopped for it, and for its way back; then the others do not count."""


@dataclass(frozen=True)
class MigrationTopology(ZookeeperTopology):
    """The nodes of a cluster that migrates."""

    quorum: int = 3
    """Number of controllers that migrate, on machines ``n101``, ``n102``, ..."""
    level: int = LATEST_METADATA_VERSION
    """The metadata.version of the quorum."""
    attempts: tuple[AttemptPlan, ...] = field(default_factory=lambda: (AttemptPlan("final"),))
    pause_ms: float = 1_000.0
    """Between two steps of the operator, on the average."""
    is_careful: bool = True
    """Whether the operator waits for whole ISRs before the next broker is restarted."""


class MigratingSimNode(ZookeeperSimNode):
    """A broker of either mode, or a controller."""

    cluster: MigrationCluster

    def __init__(self, cluster: SimCluster, node_id: int, machine: SimMachine) -> None:
        super().__init__(cluster, node_id, machine)
        self.mode = Mode.ZOOKEEPER
        """The mode of its next start."""
        self.runs_in: Mode | None = None
        """The mode of its last start."""
        self.is_wanted = True
        """Whether a start starts it: not once the operator has put it away."""

    @property
    def is_controller(self) -> bool:
        return self.id >= FIRST_CONTROLLER

    @property
    def running(self) -> Node | ZookeeperNode | None:
        return self.node or self.zookeeper_node

    @property
    def broker(self) -> Broker | None:
        return None if self.running is None else self.running.broker

    @property
    def image(self) -> MetadataImage:
        return self.node.metadata.image if self.node is not None else super().image

    @property
    def migrating(self) -> MigratingController | None:
        """The migration's part of a controller that is up."""
        migrating = None if self.node is None else self.node.migrating
        return migrating if isinstance(migrating, MigratingController) else None

    @property
    def migration(self) -> OnlineMigration | None:
        """The migration of a controller that is up."""
        return None if self.migrating is None else self.migrating.migration

    @property
    def sessions(self) -> SessionKeeper | None:
        """Its way to ZooKeeper, where it is up and has one."""
        if self.zookeeper_node is not None:
            return self.zookeeper_node.sessions
        return None if self.migrating is None else self.migrating.sessions

    def start(self) -> None:
        if self.is_wanted:
            super().start()

    def _boot(self, process: SimProcess, config: NodeConfig) -> None:
        self.runs_in = self.mode
        if not self.is_controller and self.mode is not Mode.KRAFT:
            super()._boot(process, config)
            return
        if self.is_controller and self.needs_format:
            features = {METADATA_VERSION: self.cluster.topology.level}
            random_bytes = process.rng("format").randbytes
            format_node(
                process.disk,
                config,
                self.cluster.cluster_id,
                random_bytes,
                START_WALL_MS,
                features=features,
                records=self.cluster.copied,
            )
            self.needs_format = False
        node = quorum_node(config, process)
        node.start()
        self.node = node

    def _let_go(self) -> None:
        SimNode._let_go(self)
        self.zookeeper_node = None


class MigrationCluster(ZookeeperCluster):
    """Brokers over the twin of an ensemble, and the controllers of the present attempt."""

    topology: MigrationTopology

    def __init__(
        self, world: World, topology: MigrationTopology, bounds: NodeBounds = NodeBounds()
    ) -> None:
        super().__init__(world, topology, bounds)
        self.attempt = 0
        """The attempts that were begun."""
        self.committed_image: MetadataImage | None = None
        """The image of the log of the present attempt, as the judges replay it; None where no controllers are
        there."""
        self.copied: Sequence[Message] = ()
        """With which the quorum of the present attempt begins: the znodes of a stopped cluster."""
        self.is_copied = False
        """Whether that quorum has begun, and rules."""
        self._controllers: dict[int, MigratingSimNode] = {}

    def _make_node(self, node_id: int, machine: SimMachine) -> SimNode:
        return MigratingSimNode(self, node_id, machine)

    # -- files -------------------------------------------------------------------------------------

    def properties(self, node_id: int) -> dict[str, str]:
        node = self.node_of(node_id)
        if not node.is_controller and node.mode is not Mode.KRAFT:
            properties = super().properties(node_id)
            if node.mode is Mode.MIGRATING:
                protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
                properties |= {"listener.security.protocol.map": protocols, ENABLE: "true"}
                properties |= self._of_quorum()
            return properties
        properties = SimCluster.properties(self, node_id)
        if node.mode is Mode.MIGRATING:
            return {
                **properties,
                ENABLE: "true",
                "zookeeper.connect": self.ensemble.connect + "/kafka",
            }
        return {key: value for key, value in properties.items() if not key.startswith("zookeeper.")}

    def _of_quorum(self) -> dict[str, str]:
        return {**self._quorum(), "controller.listener.names": "CONTROLLER"}

    def _quorum(self) -> dict[str, str]:
        ids = self.quorum_ids
        return {"controller.quorum.voters": ",".join(f"{i}@n{i}:{CONTROLLER_PORT}" for i in ids)}

    def _roles(self, node_id: int) -> dict[str, str]:
        if node_id < FIRST_CONTROLLER:
            role, listener = "broker", f"PLAINTEXT://n{node_id}:{self.nodes[node_id].client_port}"
        else:
            role, listener = "controller", f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}"
        return {"process.roles": role, "listeners": listener, "log.dirs": "/data"}

    @property
    def quorum_ids(self) -> range:
        return range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.topology.quorum)

    # -- controllers -------------------------------------------------------------------------------

    def node_of(self, node_id: int) -> MigratingSimNode:
        """Also one that the operator has put away."""
        return self._controllers.get(node_id) or cast(MigratingSimNode, self.nodes[node_id])

    @property
    def migrating_brokers(self) -> list[MigratingSimNode]:
        """All brokers, whether they are up or not."""
        return [self.node_of(broker) for broker in self.topology.broker_ids]

    @property
    def controllers(self) -> list[MigratingSimNode]:
        """The controllers of the present attempt, whether they are up or not."""
        return [node for node in self._controllers.values() if node.is_wanted]

    def begin_attempt(self, copied: Sequence[Message] = ()) -> list[MigratingSimNode]:
        """Controllers with empty directories, not started yet; their quorum begins with `copied`."""
        self.attempt += 1
        self.world.totals["migrations begun"] += 1
        self.committed_image = MetadataImage(track_changes=False)
        self.copied = copied
        for node_id in self.quorum_ids:
            node = self._controllers.get(node_id)
            if node is None:
                machine = self.add_machine(f"n{node_id}")
                machine.lives_differ = True
                machine.disk.lives_rng = self.world.rng(f"lives n{node_id}")
                node = MigratingSimNode(self, node_id, machine)
                self._controllers[node_id] = node
            node.mode, node.is_wanted, node.needs_format = Mode.MIGRATING, True, True
            self.nodes[node_id] = node
        return self.controllers

    def was_copied(self, topic: bytes, index: int) -> bool:
        """Whether the quorum of the present attempt has begun with this partition."""
        return any(
            isinstance(record, PartitionRecord)
            and (record.topic_id, record.partition_id) == (topic, index)
            for record in self.copied
        )

    def end_attempt(self) -> None:
        """The controllers, which are down, are forgotten, and what nodes knew of their log."""
        for node_id in self.quorum_ids:
            node = self._controllers[node_id]
            assert not node.is_up and not node.is_wanted
            node.machine.disk.wipe("/data")
            self.nodes.pop(node_id, None)
        for known in (*self.nodes.values(), *self._controllers.values()):
            known.knew_to = -1
        self.committed_image, self.copied, self.is_copied = None, (), False

    @property
    def cluster_id(self) -> str:
        """The cluster id in the znode."""
        found = self.written.get(CLUSTER_ID)
        assert found is not None, "a cluster that migrates has run"
        return ClusterIdZnode.decode(CLUSTER_ID, found.data).cluster_id

    # -- who rules ---------------------------------------------------------------------------------

    @property
    def quorum_rules(self) -> bool:
        """Whether the log of the present attempt has what the znodes had, and its controllers are wanted."""
        return (
            self.committed_image is not None
            and bool(self.controllers)
            and (
                self.is_copied
                or self.committed_image.zk_migration_state >= ZkMigrationState.MIGRATION
            )
        )

    @property
    def is_final(self) -> bool:
        """Whether the log of the present attempt says that the migration has ended."""
        return (
            self.committed_image is not None
            and self.committed_image.zk_migration_state == ZkMigrationState.POST_MIGRATION
        )

    @property
    def are_both_written(self) -> bool:
        """Whether znodes follow the log that rules."""
        return self.quorum_rules and not self.is_final and not self.is_copied

    @property
    def truth(self) -> MetadataImage:
        """The image of the side that rules: the log's committed part, or the znodes."""
        if self.committed_image is not None and self.quorum_rules:
            return self.committed_image
        return self.written.image

    @property
    def is_claimed(self) -> bool:
        """Whether a KRaft controller has `/controller`."""
        found = self.written.get(CONTROLLER)
        if found is None:
            return False
        znode = ControllerZnode.decode(CONTROLLER, found.data)
        return znode.is_held_by_kraft(found.stat.ephemeral_owner)

    @property
    def brokers(self) -> list[ZookeeperSimNode]:
        """Those that are up, of either mode."""
        return [node for node in self.migrating_brokers if node.is_up]

    def quorum_leader(self) -> MigratingSimNode | None:
        """The controller that leads the quorum; of several that believe so, the one of the latest epoch."""
        leading = [
            node
            for node in self.controllers
            if node.node is not None and isinstance(node.node.quorum.machine.state, Leader)
        ]
        return max(leading, key=lambda n: n.node.quorum.epoch if n.node else -1, default=None)

    def active_controller(self) -> SimNode | None:
        """The controller of whichever side rules."""
        if self.is_claimed or self.quorum_rules:
            return self.quorum_leader()
        return super().active_controller()
