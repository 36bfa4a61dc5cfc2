"""A node of ZooKeeper mode as its endpoint for metrics and health watches it.

Its own check is the session with the ensemble. Its controller counts what Kafka 3.9's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from barnabas.broker.broker import Broker
from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.monitoring.health import HealthCheck
from barnabas.monitoring.monitoring import Monitoring
from barnabas.monitoring.scrape import Wait
from barnabas.node.listeners import Listeners
from barnabas.ports import Ports
from barnabas.zookeeper.controller.zookeeper_controller import ZookeeperController
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.states.controller_metrics import count_all

SESSION = "barnabas_zookeeper_session{state}"


class WatchedNode(Protocol):
    """The parts of a node. Its broker and its controller come once a session with the ensemble is there."""

    @property
    def ports(self) -> Ports: ...
    @property
    def config(self) -> NodeConfig: ...
    @property
    def listeners(self) -> Listeners: ...
    @property
    def channels(self) -> Channels: ...
    @property
    def sessions(self) -> SessionKeeper: ...
    @property
    def broker(self) -> Broker | None: ...
    @property
    def controller(self) -> ZookeeperController | None: ...
    @property
    def is_stopping(self) -> bool: ...
    @property
    def is_ready(self) -> bool: ...


class MonitoredZookeeperNode:
    """A node as `Monitoring` sees it, and what only this mode has."""

    quorum = None
    controller = None
    """A controller whose journal is a metadata log; `steps` counts this mode's."""

    def __init__(self, node: WatchedNode) -> None:
        self._node = node
        self.ports = node.ports
        self.servers = node.listeners.servers
        self.quorum_channels = node.channels

    @property
    def config(self) -> NodeConfig:
        return self._node.config

    @property
    def broker(self) -> Broker | None:
        return self._node.broker

    @property
    def is_stopping(self) -> bool:
        return self._node.is_stopping

    def open_endpoint(self) -> Monitoring:
        """Listen. Raises ``OSError``, ``ConfigError``."""
        opened = Monitoring(self, self._cluster_id, self)
        try:
            opened.bind()
        except BaseException:
            opened.close()
            raise
        return opened

    def _cluster_id(self) -> str:
        broker = self.broker
        return "" if broker is None else broker.cluster_id

    # -- what only this mode has -------------------------------------------------------------------

    def checks(self) -> Iterator[HealthCheck]:
        state = self._node.sessions.state_name
        why = (
            "" if self._node.sessions.is_connected else f"the session with the ensemble is {state}"
        )
        yield HealthCheck("session", why)
        if self.broker is None:
            yield HealthCheck("registration", "the broker waits for the ensemble")

    def steps(self, page: Exposition) -> Iterator[Wait | None]:
        page.add(SESSION, 1, labels_text({"state": self._node.sessions.state_name}))
        controller = self._node.controller
        if controller is None:
            return
        decider, book, left_out = (
            controller.decider,
            controller.steps.book,
            len(controller.unreadable),
        )
        counted: dict[str, int] = {}

        def begin(resume: Callable[[], None]) -> None:
            def on_counted(found: dict[str, int]) -> None:
                counted.update(found)
                resume()

            count_all(decider, book, left_out, on_counted)

        yield begin
        for mbean, value in counted.items():
            page.add_named(mbean, value)
        yield None
