"""A broker's membership in a cluster that a quorum coordinates (KRaft)."""

from __future__ import annotations

from barnabas.broker.cluster_traits import QUORUM_TRAITS
from barnabas.broker.controller_client.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from barnabas.broker.controller_client.controller_channel import ControllerChannel, Sender
from barnabas.config.node import NodeConfig
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.registrations import holder_of_broker_id
from barnabas.node.broker_listeners import BrokerListeners
from barnabas.ports import Ports
from barnabas.raft.raft_node import RaftNode
from barnabas.types import Endpoint


class QuorumMembership:
    """The active controller is the leader of the quorum; the broker registers with it."""

    traits = QUORUM_TRAITS

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        quorum: RaftNode,
        to_controllers: Sender,
        image: MetadataImage,
        listeners: BrokerListeners,
    ) -> None:
        self._ports = ports
        self._config = config
        self._quorum = quorum
        self.to_controllers = to_controllers
        self._image = image
        self._listeners = listeners

    def controller_endpoint(self) -> Endpoint | None:
        """The endpoint of the quorum's leader; None while it is not known."""
        return self._quorum.leader_endpoint

    def named_controller(self) -> None:
        """Clients do not learn which node it is: it may be none that they reach."""

    def open_lifecycle(
        self, identity: BrokerIdentity, controller: ControllerChannel
    ) -> BrokerLifecycle:
        """The lifecycle of a registration with the active controller."""
        image, node_id = self._image, identity.node_id
        return BrokerLifecycle(
            self._ports,
            controller,
            identity,
            heartbeat_interval_ms=self._config.broker.heartbeat_interval_ms,
            registration_timeout_ms=self._config.broker.registration_timeout_ms,
            metadata_offset=lambda: image.offset,
            id_holder=lambda: holder_of_broker_id(image.brokers.get(node_id)),
        )

    def on_ready(self) -> None:
        """Requests have waited until the broker is registered and unfenced, as in Kafka: answered earlier,
        clients would see a cluster without brokers."""
        self._listeners.serve()

    def __repr__(self) -> str:
        return f"QuorumMembership({self._quorum!r})"
