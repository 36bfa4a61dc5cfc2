"""A ZooKeeper broker's additional parts while its cluster migrates to KRaft (KIP-866).

They are an observer of the quorum, in the first log directory, and a channel to the quorum's active
controller, through which the broker also registers with the quorum. When a KRaft controller has taken over
`/controller`, all requests of this broker to its controller go to the quorum.

The observer starts with an empty log every time: a log in the directory may come from an earlier migration
that was reverted. It also begins again while it runs, where another quorum answers at the addresses of the
one that it has observed (a new attempt with controllers that were formatted again); Kafka's waits for a
restart.

Source: Kafka 3.9's ``KafkaServer`` (migrationEnabled; ``KafkaRaftManager.maybeDeleteMetadataLogDir``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.controller_client.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.client.network.channels import Channels
from barnabas.config.meta_properties import MetaProperties
from barnabas.config.node import NodeConfig
from barnabas.ports import Ports
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.settings import settings_from_node
from barnabas.security.node_security import NodeSecurity
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.schema import Message
from barnabas.zookeeper.broker.quorum_registration import MigratingLifecycle, QuorumObserver
from barnabas.zookeeper.broker.registration import ZookeeperRegistration

LEAVES_MS_MAX = 500.0
"""Time for the observer to leave the quorum when the broker stops."""


class QuorumEnrolment:
    """This broker's membership in the quorum: observer, registration and channel to the controller."""

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        meta: MetaProperties,
        security: NodeSecurity,
        to_brokers: Channels,
        is_kraft: Callable[[], bool],
        on_leader: Callable[[], None],
    ) -> None:
        """`is_kraft`: whether a KRaft controller is the cluster's controller. `on_leader` is called when the
        quorum's active controller changes or is no longer known. Blocks on the disk. Raises ``OSError``."""
        self._tell_leader = on_leader
        self._ports = ports
        self._config = config
        self.is_kraft = is_kraft
        self._to_brokers = to_brokers
        self._to_controllers = to_brokers
        if not security.is_open:
            name = f"node-{config.node_id}"
            self._to_controllers = Channels(ports, name, security=security.to_controllers)
        self._observer = QuorumObserver(self._on_moved, self._on_leader)
        self._settings = settings_from_node(config, meta, {})
        self.quorum = self._observe()
        timeout_ms = config.broker.request_timeout_ms
        self.channel = ControllerChannel(ports, self._to_controllers, timeout_ms, self._on_leader)
        """To the quorum's active controller, whether it is the cluster's controller yet or not."""
        self._lifecycle: BrokerLifecycle | None = None
        self._closing = False

    def _observe(self) -> RaftNode:
        """An observer with an empty log. Blocks on the disk. Raises ``OSError``."""
        ports, directory = self._ports, self._config.metadata_log_dir
        old = f"{directory}/{METADATA_TOPIC}-0"
        if ports.disk.exists(old):
            ports.log("info", "migration.old_log_removed", path=old)
            ports.disk.remove_tree(old)
        self._observer.offset = -1
        made: list[RaftNode] = []

        def begin_again(reason: str) -> None:
            if made == [self.quorum] and not self._closing:
                self._begin_again(reason)

        made.append(
            RaftNode.open(
                ports, self._settings, directory, self._to_controllers, self._observer, begin_again
            )
        )
        return made[0]

    def _begin_again(self, reason: str) -> None:
        """Another quorum has the addresses of the one that this broker has observed."""
        self._ports.log("warning", "migration.other_quorum", reason=reason)
        self.quorum.close()
        try:
            self.quorum = self._observe()
        except OSError as error:
            self._ports.halt(f"the log of the quorum in {self._config.metadata_log_dir}: {error}")
            return
        self._on_leader()
        self.quorum.start()

    # -- the way to the controller ------------------------------------------------------------

    @property
    def controller_endpoint(self) -> Endpoint | None:
        return self.quorum.leader_endpoint

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[Any], None],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None:
        """Send `request` to the cluster's controller, with the security of its listener."""
        channels = self._to_controllers if self.is_kraft() else self._to_brokers
        channels.send(
            target, request, on_done, version=version, timeout_ms=timeout_ms, purpose=purpose
        )

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None:
        for channels in {self._to_controllers: None, self._to_brokers: None}:
            channels.disconnect(target, purpose)

    # -- life --------------------------------------------------------------------------------------

    def lifecycle(
        self, identity: BrokerIdentity, zookeeper: ZookeeperRegistration
    ) -> MigratingLifecycle:
        """Start the observer. Returns the lifecycle of both registrations, with ZooKeeper and with the
        quorum."""
        quorum = BrokerLifecycle(
            self._ports,
            self.channel,
            identity,
            heartbeat_interval_ms=self._config.broker.heartbeat_interval_ms,
            registration_timeout_ms=self._config.broker.registration_timeout_ms,
            metadata_offset=lambda: self._observer.offset,
            is_migrating=True,
        )
        self._lifecycle = quorum
        self.quorum.start()
        return MigratingLifecycle(zookeeper, quorum, self.is_kraft)

    def _on_moved(self, matters: bool) -> None:
        if self._lifecycle is not None:
            self._lifecycle.on_metadata(matters)

    def _on_leader(self) -> None:
        self.channel.on_controller_change(self.quorum.leader_id, self.quorum.leader_endpoint)
        if self._lifecycle is not None:
            self._lifecycle.on_controller_change()
        self._tell_leader()

    @property
    def broker_epoch(self) -> int:
        """Epoch of the registration with the quorum; -1 before there is one."""
        return -1 if self._lifecycle is None else self._lifecycle.broker_epoch

    def close(self, on_closed: Callable[[], None]) -> None:
        """Leave the quorum and close the channels, then call `on_closed`."""
        self._closing = True

        def left() -> None:
            self.channel.close()
            if self._to_controllers is not self._to_brokers:
                self._to_controllers.close()
            on_closed()

        self.quorum.shutdown(left, LEAVES_MS_MAX)

    def describe(self) -> dict[str, object]:
        """State for metrics, logs and the CLI."""
        return {"rules": self.is_kraft(), "quorum": self.quorum.describe()}

    def __repr__(self) -> str:
        return f"QuorumEnrolment({self.quorum!r})"
