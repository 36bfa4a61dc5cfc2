"""Makes the node of a configuration, and the ports on this machine that it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.config.coordination import QUORUM
from barnabas.config.node import NodeConfig
from barnabas.host.loop import Loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.node.node import Node


class RunnableNode(Protocol):
    """A node, whatever coordinates its cluster."""

    def start(self) -> None: ...
    def begin_shutdown(self, on_done: Callable[[], None]) -> None: ...

    @property
    def logs_closed(self) -> int: ...


def new_ports(loop: Loop, journal: StructuredLog, config: NodeConfig) -> HostPorts:
    """The ports of a node; those to ZooKeeper where its configuration asks for them."""
    if config.coordination is QUORUM:
        return HostPorts(loop, journal, config)
    from barnabas.host.zookeeper.ports import ZookeeperPorts

    return ZookeeperPorts(loop, journal, config)


def new_node(config: NodeConfig, ports: HostPorts, journal: StructuredLog) -> RunnableNode:
    """The node of `config`; not started yet."""
    if config.coordination is QUORUM:
        return Node(config, ports, journal.loggers)
    from barnabas.zookeeper.door import new_node as new_zookeeper_node

    return new_zookeeper_node(config, ports, journal.loggers)
