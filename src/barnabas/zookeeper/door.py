"""The front door of ZooKeeper mode: how a configuration and a node of it are made.

A process loads this module, and with it the package, where its file has a key of ZooKeeper's. Nodes of other
files load nothing of the package.
"""

from __future__ import annotations

from barnabas.config.loggers import Loggers
from barnabas.config.node import NodeConfig
from barnabas.node.node import Node
from barnabas.ports import Ports
from barnabas.zookeeper.config.coordination import (
    EnsembleCoordination,
    coordination_of,
    migration_of,
    node_config,
)
from barnabas.zookeeper.node.migrating_controller import MigratingController
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode

__all__ = ["coordination_of", "new_node", "node_config", "quorum_node"]


def new_node(
    config: NodeConfig, ports: Ports, loggers: Loggers | None = None
) -> Node | ZookeeperNode:
    """The node of a configuration that `coordination_of` is part of."""
    if isinstance(config.coordination, EnsembleCoordination):
        return ZookeeperNode(config, ports, loggers)
    return quorum_node(config, ports, loggers)


def quorum_node(config: NodeConfig, ports: Ports, loggers: Loggers | None = None) -> Node:
    """A node of a quorum, which may migrate its cluster from ZooKeeper."""
    migrates = migration_of(config) is not None
    return Node(config, ports, loggers, MigratingController if migrates else None)
