"""The endpoint for metrics and health of a node in ZooKeeper mode, where its configuration has one.

The modules that serve it are loaded only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.monitoring.monitoring import Monitoring
    from barnabas.zookeeper.node.monitored_node import WatchedNode


class OwnEndpoint:
    """The endpoint of one node, open or not."""

    def __init__(self, node: WatchedNode) -> None:
        self._node = node
        self._monitoring: Monitoring | None = None

    def open(self) -> None:
        """Listen and send where the configuration says so. Raises ``OSError``, ``ConfigError``."""
        if self._node.config.is_monitored:
            from barnabas.zookeeper.node.monitored_node import MonitoredZookeeperNode

            self._monitoring = MonitoredZookeeperNode(self._node).open_endpoint()

    def why_not_ready(self) -> str:
        """The reason why the cluster cannot count on the node; empty where it can."""
        node = self._node
        if node.is_stopping:
            return "the node shuts down"
        return "" if node.is_ready else f"the broker is not registered: {node.sessions!r}"

    def close(self) -> None:
        if self._monitoring is not None:
            self._monitoring.close()
