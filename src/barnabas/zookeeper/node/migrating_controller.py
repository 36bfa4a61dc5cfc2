"""A KRaft controller's additional parts while its cluster migrates from ZooKeeper (KIP-866): a session with
the ensemble, the migration, and orders to brokers.

Source: Kafka 3.9's ``ControllerServer`` (where ``zookeeper.metadata.migration.enable`` is set).
"""

from __future__ import annotations

from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.node.metadata_loader import MetadataLoader
from barnabas.ports import Ports
from barnabas.zookeeper.config.coordination import migration_of
from barnabas.zookeeper.controller.broker_orders import BrokerOrders
from barnabas.zookeeper.migration.idle_records import IdleRecords
from barnabas.zookeeper.migration.online_migration import OnlineMigration
from barnabas.zookeeper.session import HasZooKeeper
from barnabas.zookeeper.session_keeper import SessionKeeper, session_settings


class MigratingController:
    """The migration that this controller runs, and its ZooKeeper session."""

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        controller: QuorumController,
        metadata: MetadataLoader,
        to_brokers: Channels,
    ) -> None:
        """Raises ``OSError`` where the ports have no access to ZooKeeper."""
        settings = migration_of(config)
        assert settings is not None
        if not isinstance(ports, HasZooKeeper):
            raise OSError(0, "this world has no way to a ZooKeeper ensemble")
        self.sessions = SessionKeeper(
            ports,
            ports.zookeeper,
            session_settings(settings, config.properties),
            secures=settings.set_acl,
        )
        listener = settings.control_plane_listener or config.inter_broker_listener_name
        orders = BrokerOrders(
            ports,
            to_brokers,
            metadata.image,
            int(config.node_id),
            listener.upper(),
            of_quorum=True,
        )
        self.migration = OnlineMigration(ports, self.sessions, controller, metadata.image, orders)
        self.sessions.follow(self.migration)
        controller.duties = (*controller.duties, self.migration, IdleRecords(controller))
        metadata.add_follower(self)

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """The quorum has committed records: the migration writes to ZooKeeper what they changed."""
        self.migration.on_metadata(image, changes)

    def on_controller_change(self) -> None:
        """Nothing: the migration is one of the controller's duties, which follow the leadership."""

    def start(self) -> None:
        """Begin the session. Raises ``ConfigError``."""
        self.sessions.open()

    def close(self) -> None:
        """End the session. This controller keeps `/controller`, which is not an ephemeral znode then."""
        self.sessions.close(lambda: None)

    def validate(self) -> None:
        """Raises AssertionError where phase, claim, writes and orders contradict each other."""
        self.migration.validate()

    def describe(self) -> dict[str, object]:
        """State for metrics, logs and the CLI."""
        return self.migration.describe()

    def __repr__(self) -> str:
        return f"MigratingController({self.migration!r})"
