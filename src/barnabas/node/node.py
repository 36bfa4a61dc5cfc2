"""One node: assembles its roles from a configuration and ports.

The composition root; it decides nothing. Order of start: check the identity of the log directories, bind the
listeners (the roles advertise their real ports), create the quorum's replica, the controller and the broker,
fill the API tables. Only then do the roles start.

Source: Kafka's ``SharedServer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.broker import Broker
from barnabas.broker.dynamic_config import valid_values
from barnabas.broker.handlers import FORWARDED_KEYS
from barnabas.client.network.channels import Channels
from barnabas.config.loggers import Loggers
from barnabas.config.meta_properties import (
    MetaProperties,
    check_directories,
    complete_meta_properties,
    read_owner,
)
from barnabas.config.node import NodeConfig
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.features import KRAFT_VERSION, supported
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT, MetadataImage
from barnabas.metadata.storage_format import directories_of
from barnabas.node.api_tables import serve_as_broker, serve_as_controller
from barnabas.node.bootstrap import read_bootstrap
from barnabas.node.broker_listeners import BrokerListeners
from barnabas.node.controller_addition import ControllerAddition, MakesAddition
from barnabas.node.cordoned_directories import CordonedDirectories
from barnabas.node.dynamic_security import DynamicSecurity
from barnabas.node.listeners import Listeners
from barnabas.node.logger_configs import OwnLoggers
from barnabas.node.metadata_loader import MetadataLoader
from barnabas.node.quorum_membership import QuorumMembership
from barnabas.policy import NO_POLICIES, load_policies
from barnabas.ports import Ports, no_work
from barnabas.raft import handlers as raft_handlers
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.settings import settings_from_node
from barnabas.security.authorization.access_rules import guard
from barnabas.security.authorization.broker_access import BROKER_RULES
from barnabas.security.authorization.controller_access import CONTROLLER_RULES
from barnabas.security.delegation_tokens import TokenCredentials, TokenSecrets
from barnabas.security.listener_security import random_bytes_of
from barnabas.security.node_security import NodeSecurity
from barnabas.security.quotas.client_meter import UnchargedMeter
from barnabas.security.scram import ScramCredential
from barnabas.security.scram_credentials import scram_credential
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.api_versions import Features, NodeIdentity
from barnabas.wire.server import RequestServer

if TYPE_CHECKING:
    from barnabas.monitoring.health import NodeReadiness
    from barnabas.monitoring.monitoring import Monitoring

LOCK_FILE = ".lock"
QUORUM_LEAVES_MS_MAX = 1_000.0
"""Time for the quorum's replica to resign and to inform the other voters, which may have ended as well."""


class Node:
    """A broker, a controller, or both."""

    def __init__(
        self,
        config: NodeConfig,
        ports: Ports,
        loggers: Loggers | None = None,
        makes_migration: MakesAddition | None = None,
    ) -> None:
        """`loggers` decide which events the node's own log writes (default: the levels of `Loggers()`).
        `makes_migration`: makes the controller's part in the migration of its cluster; None where it takes
        no part in one."""
        self.config = config
        self.ports = ports
        tokens = TokenCredentials(
            TokenSecrets.of(config.values),
            self._known_image,
            ports.clock.wall_ms,
            random_bytes_of(ports),
        )
        self.listeners = Listeners(
            ports, config, self._features, self._scram_credential, tokens, self._address_rate
        )
        self.security = NodeSecurity(config)
        name = f"node-{config.node_id}"
        self.channels = Channels(ports, name, security=self.security.between_brokers)
        """Connections to brokers; `quorum_channels` has those to controllers."""
        self.quorum_channels = self.channels
        if not self.security.is_open:
            self.quorum_channels = Channels(ports, name, security=self.security.to_controllers)
        self._dynamic = DynamicSecurity(
            ports,
            config,
            self.listeners,
            {
                config.inter_broker_listener_name: self.channels,
                config.controller_listener_names[0]: self.quorum_channels,
            },
        )
        self.metadata = MetadataLoader(ports)
        self.controller: QuorumController | None = None
        self.broker: Broker | None = None
        self.quorum: RaftNode
        self._makes_migration = makes_migration
        self._migrating: ControllerAddition | None = None
        self._monitoring: Monitoring | None = None
        self._readiness: NodeReadiness | None = None
        self._stopping = False
        self._own_loggers = OwnLoggers(int(config.node_id), loggers or Loggers())
        self._policies = NO_POLICIES

    def start(self, between_logs: Callable[[], None] = no_work) -> None:
        """Start the node. Blocks on the disk until the logs are open; `between_logs` is called between two
        of them. Raises ``DirectoryError``, ``ConfigError`` or ``OSError``, with one sentence, where it
        cannot start."""
        if self.config.is_controller:
            self._policies = load_policies(self.config.properties)
        self.security.check(self.ports, self.listeners.stages.values())
        identities = self._identify()
        try:
            self.listeners.bind()
            self._assemble(identities)
            try:
                self._monitoring = self._open_monitoring(identities)
                self.quorum.start()
                if self._migrating is not None:
                    self._migrating.start()
                if self.broker is not None:
                    self.broker.start(between_logs)
            except BaseException:
                if self._monitoring is not None:
                    self._monitoring.close()
                self.quorum.close()
                raise
        except BaseException:
            self.listeners.close()
            raise

    def _open_monitoring(self, identities: Mapping[str, MetaProperties]) -> Monitoring | None:
        """The endpoint for metrics and health, where the configuration shows or sends them: its modules are
        loaded only then. Raises ``OSError``, ``ConfigError``."""
        if not self.config.is_monitored:
            return None
        from barnabas.monitoring.monitoring import Monitoring

        cluster_id = identities[self.config.metadata_log_dir].cluster_id
        opened = Monitoring(self, lambda: cluster_id)
        try:
            opened.bind()
        except BaseException:
            opened.close()
            raise
        return opened

    def why_not_ready(self) -> str:
        """The first reason why the cluster cannot count on this node; empty where it can."""
        from barnabas.monitoring.health import NodeReadiness

        if not hasattr(self, "quorum"):
            return "the node starts"
        self._readiness = self._readiness or NodeReadiness(self.ports.clock)
        checks = self._readiness.checks(self.quorum, self.broker, is_stopping=self._stopping)
        return next((check.why for check in checks if check.why), "")

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    @property
    def servers(self) -> Mapping[str, RequestServer]:
        """The listeners of Kafka's protocol by name."""
        return self.listeners.servers

    def _identify(self) -> Mapping[str, MetaProperties]:
        config, disk = self.config, self.ports.disk
        complete = partial(
            complete_meta_properties, disk, random_bytes=self.ports.rng("ids").randbytes
        )
        readable = []
        for path in directories_of(config):
            try:
                if not config.is_controller:
                    _forget_former_quorum(self.ports, path)
                if complete(path):
                    self.ports.log("info", "log.directory_completed", path=path)
            except OSError:  # offline
                if path == config.metadata_log_dir:
                    raise
                continue
            readable.append(path)
        identities = check_directories(
            disk, readable, config.node_id, required=config.metadata_log_dir
        )
        for path in identities:
            if not disk.try_lock(f"{path}/{LOCK_FILE}"):
                raise OSError(
                    0, "another process has it; each node needs a log directory of its own", path
                )
        return identities

    def _assemble(self, identities: Mapping[str, MetaProperties]) -> None:
        config, ports = self.config, self.ports
        meta = identities[config.metadata_log_dir]
        endpoints = self.listeners.advertised(config.controller_listeners)
        self.quorum = RaftNode.open(
            ports,
            settings_from_node(config, meta, endpoints),
            config.metadata_log_dir,
            self.quorum_channels,
            self.metadata,
        )
        try:
            if config.is_controller:
                self._add_controller(meta, endpoints)
            if config.is_broker:
                self._add_broker(identities)
        except BaseException:
            self.quorum.close()
            raise

    def _add_controller(self, meta: MetaProperties, endpoints: Mapping[str, Endpoint]) -> None:
        config = self.config
        controller = QuorumController(
            self.ports,
            config,
            self.quorum,
            cluster_id=meta.cluster_id,
            endpoints=endpoints,
            bootstrap=read_bootstrap(self.ports.disk, config.metadata_log_dir),
            sender=None if self.security.is_open else self.channels,
            to_controllers=None if self.security.is_open else self.quorum_channels,
            policies=self._policies,
            migrates=self._makes_migration is not None,
            listener_metrics=self.listeners.certificates.metrics,
        )
        self.controller = controller
        self.metadata.add_controller(controller, None if config.is_broker else self._follow_configs)
        if self._makes_migration is not None:
            self._migrating = self._makes_migration(
                self.ports, config, controller, self.metadata, self.channels
            )
        self.listeners.on_disconnect(controller.on_connection_closed)
        self.listeners.measure(config.controller_listeners, UnchargedMeter())
        for table in self.listeners.tables(config.controller_listeners):
            serve_as_controller(table, controller, self.quorum)
            self._own_loggers.serve(table)
            guard(table, CONTROLLER_RULES, controller.authorizer)
        for module in raft_handlers.FORWARDED:
            controller.forwarded_apis.add(module, self.quorum)
        guard(controller.forwarded_apis, CONTROLLER_RULES, controller.authorizer)

    def _add_broker(self, identities: Mapping[str, MetaProperties]) -> None:
        config = self.config
        identity = NodeIdentity(identities[config.metadata_log_dir].cluster_id, int(config.node_id))
        self.listeners.identify(identity)
        image = self.metadata.image
        listeners = BrokerListeners(self.listeners, config, self._dynamic)
        membership = QuorumMembership(
            self.ports, config, self.quorum, self.quorum_channels, image, listeners
        )
        broker = self.broker = Broker(
            self.ports, config, identities, self.channels, image, listeners, membership
        )
        self.metadata.add_follower(broker)
        self.listeners.hold(config.broker_listeners)  # until the broker is ready
        self.listeners.on_disconnect(broker.shares.on_connection_closed)
        for table in self.listeners.tables(config.broker_listeners):
            serve_as_broker(table, broker)
            self._own_loggers.serve(table)
            CordonedDirectories(config.node_id, config.log_dirs, broker.authorizer).serve(table)
            guard(table, BROKER_RULES, broker.authorizer, judged_elsewhere=FORWARDED_KEYS)

    def _follow_configs(self, image: MetadataImage) -> None:
        """The configuration of this node, which is only a controller, may have changed (KIP-919)."""
        texts = dict(self.config.texts)
        for name in (CLUSTER_DEFAULT, str(self.config.node_id)):
            texts |= valid_values(image.config(BROKER, name))
        self._dynamic.follow(texts)

    def _address_rate(self, host: str) -> float | None:
        """How many connections the address `host` may make in a second; None without a limit."""
        return None if self.broker is None else self.broker.quotas.connection_rate(host)

    def _scram_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """The SCRAM credential in the metadata; None where the user has none."""
        return scram_credential(self._known_image().scram_credentials, mechanism, user)

    def _known_image(self) -> MetadataImage:
        """The image to read credentials from. A node that is only a controller has just the controller's
        image, which includes uncommitted records."""
        if self.broker is None and self.controller is not None:
            return self.controller.image
        return self.metadata.image

    def _features(self) -> Features:
        """The feature levels for ApiVersions. A node that is only a controller takes them from the
        controller; kraft.version comes from the quorum, not from the metadata."""
        levels, offset = self.metadata.image.features, self.metadata.image.offset
        if self.broker is None and self.controller is not None:
            levels, offset = self.controller.finalized.levels, self.controller.finalized.offset
        finalized = dict(levels)
        if self.quorum.kraft_version > 0:
            finalized[KRAFT_VERSION] = self.quorum.kraft_version
        return Features(supported(finalized), finalized, offset)

    # -- the end ---------------------------------------------------------------------------------

    def begin_shutdown(self, on_done: Callable[[], None]) -> None:
        """Begin a controlled shutdown: the broker moves its leaderships away and closes its logs, then the
        quorum's replica resigns, then `on_done` is called."""
        if self._stopping:
            return
        self._stopping = True

        def quorum_left() -> None:
            if self._migrating is not None:
                self._migrating.close()
            if self._monitoring is not None:
                self._monitoring.close()
            self.listeners.close()
            self.channels.close()
            self.quorum_channels.close()
            self._policies.close()
            on_done()

        def broker_left() -> None:
            self.quorum.shutdown(quorum_left, QUORUM_LEAVES_MS_MAX)

        def stop_serving() -> None:  # nothing may be appended to logs that are being closed
            self.listeners.end(self.config.broker_listeners)

        if self.broker is not None:
            self.broker.begin_shutdown(broker_left, stop_serving)
        else:
            broker_left()

    @property
    def logs_closed(self) -> int:
        """Number of logs that the shutdown has closed: shows whether it makes progress."""
        return 0 if self.broker is None else self.broker.logs_closed

    @property
    def migrating(self) -> ControllerAddition | None:
        """This controller's part in the migration of its cluster; None where it takes no part in one."""
        return self._migrating

    def describe(self) -> dict[str, object]:
        """State for metrics, logs and the CLI."""
        return {
            "node": int(self.config.node_id),
            "quorum": self.quorum.describe(),
            "controller": self.controller.describe() if self.controller else None,
            "migration": self._migrating.describe() if self._migrating else None,
            "broker": self.broker.describe() if self.broker else None,
            "listeners": self.listeners.describe(),
        }

    def __repr__(self) -> str:
        return f"Node({self.config!r})"


def _forget_former_quorum(ports: Ports, directory: str) -> None:
    """Remove the metadata log of a broker that comes from ZooKeeper: it may be of an earlier migration, from
    which the way back was taken. The broker fetches that of its quorum. Raises ``OSError``,
    ``DirectoryError``."""
    path = f"{directory}/{METADATA_TOPIC}-0"
    owner = read_owner(ports.disk, directory)
    if owner is not None and owner.is_in_zookeeper_mode and ports.disk.exists(path):
        ports.log("info", "migration.old_log_removed", path=path)
        ports.disk.remove_tree(path)
