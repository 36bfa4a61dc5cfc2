"""Brokers in ZooKeeper mode and the controllers that migrate them, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.config.node import NodeConfig
from barnabas.limits import NodeBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.storage_format import format_node
from barnabas.node.node import Node
from barnabas.sim.world.process import SimProcess
from barnabas.zookeeper.door import node_config, quorum_node
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.topic_znodes import PartitionStateZnode, state_path
from barnabas.zookeeper.migration import claim
from barnabas.zookeeper.migration.driver import MigrationPhase
from barnabas.zookeeper.node.migrating_controller import MigratingController
from barnabas.zookeeper.operations import GetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

CONTROLLERS = (101, 102, 103)
VOTERS = ",".join(f"{node}@c{node}:9093" for node in CONTROLLERS)
OF_QUORUM = {
    "controller.quorum.voters": VOTERS,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
AMBUSH_MS = 0.1
ENABLE = "zookeeper.metadata.migration.enable"


class MigratingCluster(ZookeeperCluster):
    """Starts as a cluster in ZooKeeper mode; `begin` starts the controllers."""

    def __init__(self, brokers: int = 3, seed: int = 1, **settings: str) -> None:
        self.controllers: dict[int, Node] = {}
        self.controller_processes: dict[int, SimProcess] = {}
        self.under_kraft: dict[int, Node] = {}
        self.ambush: tuple[MigrationPhase, Callable[[], None]] | None = None
        """What is done as soon as a leader is in a phase, once."""
        self.controller_settings: dict[str, str] = {}
        super().__init__(brokers, seed, 1, NodeBounds(), **settings)

    def pass_time(self, ms: float) -> None:
        until_ms = self.world.now_ms + ms
        while (ambush := self.ambush) is not None and self.world.now_ms < until_ms:
            self.world.run(min(until_ms, self.world.now_ms + AMBUSH_MS))
            if self.phase() is ambush[0]:
                self.ambush = None
                ambush[1]()
        if self.world.now_ms < until_ms:
            super().pass_time(until_ms - self.world.now_ms)
        for node in self.controllers.values():
            if node.migrating is not None:
                node.migrating.validate()

    def enable(self, broker: int) -> None:
        """Restart a broker with the migration enabled."""
        self.stop(broker)
        self.restart_migrating(broker)

    def restart_migrating(self, broker: int) -> None:
        """Start a broker in ZooKeeper mode with the migration enabled, until it is ready."""
        before, values = self.settings, {**OF_QUORUM, ENABLE: "true"}
        self.settings = {**before, **{k.replace(".", "_"): v for k, v in values.items()}}
        self.start(broker)
        self.settings = before
        self.wait(lambda: self.nodes[broker].is_ready, f"broker {broker} is ready")

    def stop(self, broker: int) -> None:
        """By a controlled shutdown."""
        node: Any = self.nodes.pop(broker, None) or self.under_kraft.pop(broker)
        done: list[None] = []
        process = self.processes[broker]
        process.run(lambda: node.begin_shutdown(lambda: done.append(None)))
        self.wait(lambda: bool(done), f"broker {broker} stops")
        process.kill()

    def start_controller(self, node_id: int, *, migrates: bool = True) -> None:
        host = f"c{node_id}"
        values = {
            **OF_QUORUM,
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{host}:9093",
            "log.dirs": "/meta",
        }
        values |= self.controller_settings
        if migrates:
            values |= {ENABLE: "true", "zookeeper.connect": self.ensemble.connect}
        if host not in self.machines:
            self.machine(host)
        config = node_config(values)
        process = self.controller_processes[node_id] = self.machines[host].start_process()
        known = self.read("/cluster/id")
        assert known is not None
        format_node(process.disk, config, known["id"], process.rng("format").randbytes, 0)
        node = self.controllers[node_id] = quorum_node(config, process)
        process.run(node.start)

    def kill_controller(self, node_id: int) -> None:
        self.controller_processes[node_id].kill()
        del self.controllers[node_id]

    def begin(self) -> None:
        for node_id in CONTROLLERS:
            self.start_controller(node_id)
        for broker in sorted(self.nodes):
            self.enable(broker)

    def to_kraft(self, broker: int) -> None:
        """Restart a broker under KRaft, on the directory that it has."""
        if broker in self.nodes or broker in self.under_kraft:
            self.stop(broker)
        config = NodeConfig.from_properties(
            {
                **OF_QUORUM,
                "process.roles": "broker",
                "node.id": str(broker),
                "listeners": f"PLAINTEXT://n{broker}:9092",
                "log.dirs": "/data",
            }
        )
        process = self.processes[broker] = self.machines[f"n{broker}"].start_process()
        node = self.under_kraft[broker] = Node(config, process)
        process.run(node.start)

    def revert(self) -> None:
        """Brokers back in ZooKeeper mode one by one, controllers forgotten, the claim released."""
        for broker in sorted(self.under_kraft):
            self.stop(broker)
            self.restart_migrating(broker)
        for node_id in list(self.controllers):
            self.kill_controller(node_id)
            self.machines[f"c{node_id}"].start_process().disk.remove_tree("/meta")
        found = {path: self.znode(GetData(path)) for path in claim.PATHS}
        assert not isinstance(self.znode(claim.release(found)), ZooKeeperError)
        self.wait_for_controller()
        for broker in sorted(self.nodes):  # their observers know the quorum that is no more
            self.stop(broker)
            self.start(broker)
            self.wait(lambda: self.nodes[broker].is_ready, f"broker {broker} is ready")  # noqa: B023

    def read_versioned(self, topic: str, index: int) -> tuple[int, int, list[int], int] | None:
        """Leader, leader epoch, ISR and version of a state znode."""
        found = self.znode(GetData(state_path(topic, index)))
        if isinstance(found, ZooKeeperError):
            return None
        state = PartitionStateZnode.decode(state_path(topic, index), found.data)
        return state.leader, state.leader_epoch, list(state.isr), found.stat.version

    def broker_of(self, broker: int) -> Broker:
        node = self.under_kraft.get(broker)
        if node is None:
            return super().broker_of(broker)
        assert node.broker is not None
        return node.broker

    # -- what is there -----------------------------------------------------------------------------

    @property
    def leader(self) -> int:
        """The active controller, or -1."""
        found = [
            n
            for n, node in self.controllers.items()
            if node.controller and node.controller.may_decide
        ]
        return found[0] if found else -1

    def phase(self) -> MigrationPhase:
        """Of the active controller's migration."""
        if self.leader < 0:
            return MigrationPhase.INACTIVE
        migrating = self.controllers[self.leader].migrating
        if not isinstance(migrating, MigratingController):
            return MigrationPhase.INACTIVE
        return migrating.migration.migration.phase

    def image(self) -> MetadataImage:
        """The active controller's."""
        controller = self.controllers[self.leader].controller
        assert controller is not None
        return controller.image

    def wait_for_dual_write(self) -> None:
        self.wait(lambda: self.phase() is MigrationPhase.DUAL_WRITE, "both are written")
