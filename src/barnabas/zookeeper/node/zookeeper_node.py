"""Assembles a broker of a cluster that ZooKeeper coordinates; any of these brokers may be the controller.

Order of start: bind the listeners, open a session with the ensemble; when it is connected, create the
persistent znodes and find the cluster id and broker id; then create the broker and the controller, start the
election and the registration. The steps after the session's start are asynchronous: if one fails, the process
halts with one sentence.

Source: Kafka 3.9's ``KafkaServer``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf

from barnabas.broker.broker import Broker
from barnabas.broker.cluster_traits import ClusterTraits
from barnabas.broker.controller_client.broker_lifecycle import BrokerIdentity, Lifecycle
from barnabas.broker.controller_client.controller_channel import ControllerChannel, Sender
from barnabas.client.network.channels import Channels
from barnabas.config.loggers import Loggers
from barnabas.config.meta_properties import (
    FILE_NAME,
    DirectoryError,
    MetaProperties,
    back_from_quorum,
    directory_id_in_migration,
    random_uuid,
    read_zookeeper_owner,
    zookeeper_owner_text,
)
from barnabas.config.node import NodeConfig
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image.image import TOPIC, MetadataImage
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.node.api_tables import add_sasl
from barnabas.node.broker_listeners import BrokerListeners
from barnabas.node.cordoned_directories import CordonedDirectories
from barnabas.node.dynamic_security import DynamicSecurity
from barnabas.node.listeners import Listeners
from barnabas.node.logger_configs import OwnLoggers
from barnabas.node.node import LOCK_FILE
from barnabas.policy import NO_POLICIES, load_policies
from barnabas.ports import Ports, no_work
from barnabas.security.delegation_tokens import TokenCredentials, TokenSecrets
from barnabas.security.listener_security import random_bytes_of
from barnabas.security.node_security import NodeSecurity
from barnabas.security.scram import ScramCredential
from barnabas.security.scram_credentials import scram_credential
from barnabas.types import Endpoint, NodeId, Uuid
from barnabas.wire.api_versions import Features, NodeIdentity
from barnabas.zookeeper.acl_store import AclStore
from barnabas.zookeeper.broker.acl_requests import AclRequests
from barnabas.zookeeper.broker.control_requests import ControlRequests, config_records
from barnabas.zookeeper.broker.metadata_records import Incarnation
from barnabas.zookeeper.broker.own_configs import OwnConfigs
from barnabas.zookeeper.broker.quorum_registration import MigratingLifecycle
from barnabas.zookeeper.broker.registration import ZookeeperRegistration
from barnabas.zookeeper.broker.token_requests import TokenRequests
from barnabas.zookeeper.config.coordination import ensemble_of
from barnabas.zookeeper.config.settings import GENERATED
from barnabas.zookeeper.config_watch import ConfigWatch
from barnabas.zookeeper.controller.broker_orders import BrokerOrders
from barnabas.zookeeper.controller.journal import ZookeeperJournal
from barnabas.zookeeper.controller.metadata_reader import METADATA_LEVEL
from barnabas.zookeeper.controller.zookeeper_controller import ZookeeperController
from barnabas.zookeeper.election.controller_election import ControllerElection
from barnabas.zookeeper.layout.cluster_znodes import config_changes
from barnabas.zookeeper.layout.config_znodes import CONFIG, DEFAULT, resource_of
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.node.cluster_entry import ClusterEntry
from barnabas.zookeeper.node.own_endpoint import OwnEndpoint
from barnabas.zookeeper.node.quorum_enrolment import QuorumEnrolment
from barnabas.zookeeper.node.ready_gate import ReadyGate
from barnabas.zookeeper.node.zookeeper_apis import add_forwarding, add_to, guard_with
from barnabas.zookeeper.operations import SyncPath
from barnabas.zookeeper.session import HasZooKeeper
from barnabas.zookeeper.session_keeper import SessionKeeper, session_settings
from barnabas.zookeeper.token_store import TokenStore

TRAITS = ClusterTraits(
    takes_envelopes=False,
    names_directories=False,
    creates_topics_at_once=False,
)
SESSION_ENDS_MS_MAX = 1_000.0
"""Time to close the session when the node stops; after that, the session expires by its time-out."""


class ZookeeperNode:
    """A broker and a possible controller of a cluster that ZooKeeper coordinates."""

    def __init__(self, config: NodeConfig, ports: Ports, loggers: Loggers | None = None) -> None:
        self.config = config
        self.ensemble = ensemble_of(config)
        self.ports = ports
        self._loggers = loggers or Loggers()
        secrets = TokenSecrets.of(config.values)
        tokens = TokenCredentials(
            secrets, self._known_image, ports.clock.wall_ms, random_bytes_of(ports)
        )
        self.listeners = Listeners(
            ports,
            config,
            _no_features,
            self._scram_credential,
            tokens,
            partial(_address_rate, self),
        )
        self.security = NodeSecurity(config)
        self.channels = Channels(
            ports, f"node-{config.node_id}", security=self.security.between_brokers
        )
        if not isinstance(ports, HasZooKeeper):
            raise OSError(0, "this world has no way to a ZooKeeper ensemble")
        settings = session_settings(self.ensemble, config.properties)
        self.sessions = SessionKeeper(
            ports, ports.zookeeper, settings, secures=self.ensemble.set_acl
        )
        self.broker: Broker | None = None
        self.controller: ZookeeperController | None = None
        self.election: ControllerElection
        self.journal: ZookeeperJournal
        self._config_watch: ConfigWatch
        self.control_requests: ControlRequests
        self._enrolment: QuorumEnrolment | None = None
        """None where the cluster does not migrate to KRaft."""
        self._acls: AclStore | None = None
        """None without an authorizer."""
        self._tokens = TokenStore(ports, self.sessions) if secrets.enabled else None
        self.token_requests: TokenRequests | None = None
        self._entities: dict[str, Mapping[str, str]] = {}
        """Configurations of users, clients and IP addresses as last read, by entity."""
        self.is_stopping = False
        self._endpoint = OwnEndpoint(self)
        self.why_not_ready = self._endpoint.why_not_ready
        self._gate = ReadyGate(ports)
        self._policies = NO_POLICIES
        self._owners: dict[str, tuple[str, int]] = {}
        self._unreadable: dict[str, None] = {}
        """Log directories that could not be read when the node started; they are offline."""

    # -- start -------------------------------------------------------------------------------------

    def start(self, between_logs: Callable[[], None] = no_work) -> None:
        """Start the node. Raises ``DirectoryError``, ``ConfigError`` or ``OSError``, with one sentence. The
        logs are opened later, in a turn of the loop, so that nothing can be done between them."""
        self._policies = load_policies(self.config.properties)
        self.security.check(self.ports, self.listeners.stages.values())
        self._read_directories()
        try:
            self.listeners.bind()
            self.listeners.hold(self.config.broker_listeners)
            self._endpoint.open()
            self.sessions.follow(
                ClusterEntry(self.ports, self.sessions, self.config, self._owners, self._known)
            )
            self.sessions.open()
        except BaseException:
            self._endpoint.close()
            self.listeners.close()
            raise

    def _read_directories(self) -> None:
        disk, failures = self.ports.disk, []
        for path in self.config.log_dirs:
            try:
                disk.make_dirs(path)
                is_free = disk.try_lock(f"{path}/{LOCK_FILE}")
                if is_free and self.ensemble.migrates and back_from_quorum(disk, path):
                    self.ports.log("info", "migration.directory_reverted", path=path)
                known = read_zookeeper_owner(disk, path)
            except OSError as error:  # offline from the start
                self._unreadable[path] = None
                failures.append(error)
                continue
            if not is_free:
                why = "another process has it; each node needs a log directory of its own"
                raise OSError(0, why, path)
            if known is None:
                continue
            if self.config.node_id not in (known[1], GENERATED):
                raise DirectoryError(
                    f"{path} belongs to broker {known[1]}, but broker.id is {self.config.node_id}"
                )
            if any(known != other for other in self._owners.values()):
                raise DirectoryError(f"{path} is of another broker or cluster than the others")
            self._owners[path] = known
        if len(failures) == len(self.config.log_dirs):
            raise failures[0]

    def _known(self, cluster_id: str, broker_id: int) -> None:
        """Called when the cluster id and broker id are known: load ACLs and delegation tokens, then
        assemble."""
        self.config = dataclasses.replace(self.config, node_id=NodeId(broker_id))
        assemble = partial(self._assemble, cluster_id)
        if self.config.properties.get("authorizer.class.name", "").strip():
            self._acls = AclStore(self.ports, self.sessions)
        for store in (self._tokens, self._acls):
            if store is not None:
                self.sessions.follow(store)
                assemble = partial(store.load, assemble)
        assemble()

    def _assemble(self, cluster_id: str) -> None:
        try:
            self._make(cluster_id)
        except (OSError, DirectoryError) as error:
            self.ports.halt(str(error))

    def _make(self, cluster_id: str) -> None:
        config, ports = self.config, self.ports
        identities = self._identify(cluster_id)
        self.listeners.identify(NodeIdentity(cluster_id, int(config.node_id)))
        image = MetadataImage()
        image.replay_batch(
            [FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_LEVEL)], 0, 0
        )
        image.take_changes()
        outgoing = {config.inter_broker_listener_name: self.channels}
        dynamic = DynamicSecurity(ports, config, self.listeners, outgoing)
        listeners = BrokerListeners(self.listeners, config, dynamic)
        control = _control_listener(self)
        self.election = ControllerElection(
            ports,
            self.sessions,
            int(config.node_id),
            self.channels,
            control,
            listeners.endpoints[control],
            lambda: self.control_requests.controller_epoch,
            partial(_follow_controller, self),
        )
        if self.ensemble.migrates:
            self._enrolment = QuorumEnrolment(
                ports,
                self.config,
                identities[config.metadata_log_dir],
                self.security,
                self.channels,
                lambda: self.election.is_kraft,
                partial(_follow_controller, self),
            )
        self.broker = self._make_broker(identities, image, listeners)
        self._make_controller(cluster_id)
        for store in (self._acls, self._tokens):
            if store is not None:
                store.replay_to(self.control_requests.replay)
        self._serve(self.broker)
        for follower in (self._config_watch, self.election, self.controller):
            assert follower is not None
            self.sessions.follow(follower)
        self.broker.start()
        self._read_own_configs()
        self.election.on_connected(True)

    def _identify(self, cluster_id: str) -> dict[str, MetaProperties]:
        """The identities of the readable log directories. ``meta.properties`` of version 0 has no directory
        ids, so random ones are made: for this process only, or, where the cluster migrates, for good."""
        broker_id, rng, disk = int(self.config.node_id), self.ports.rng("ids"), self.ports.disk
        migrates = self.ensemble.migrates
        found: dict[str, MetaProperties] = {}
        failures: list[OSError] = []
        for path in self.config.log_dirs:
            if path in self._unreadable:
                continue
            try:
                if path not in self._owners:
                    text = zookeeper_owner_text(cluster_id, broker_id)
                    disk.write_atomic(f"{path}/{FILE_NAME}", text.encode())
                if migrates:
                    directory = directory_id_in_migration(disk, path, rng.randbytes)
                else:
                    directory = random_uuid(rng.randbytes)
            except OSError as error:
                failures.append(error)
                continue
            found[path] = MetaProperties(cluster_id, NodeId(broker_id), directory)
        if not found:
            raise failures[0]
        return found

    def _make_broker(
        self,
        identities: Mapping[str, MetaProperties],
        image: MetadataImage,
        listeners: BrokerListeners,
    ) -> Broker:
        broker = Broker(
            self.ports, self.config, identities, self.channels, image, listeners, membership=self
        )
        self._config_watch = ConfigWatch(
            self.ports, self.sessions, self._configs_in_use, self._on_config
        )
        self.control_requests = ControlRequests(
            self.ports, broker, self._incarnation, self._config_watch.read_topics
        )
        return broker

    def _make_controller(self, cluster_id: str) -> None:
        config, ports = self.config, self.ports
        self.journal = ZookeeperJournal(
            ports, self.sessions, lambda: self.election.controller_endpoint
        )
        decider = QuorumController(
            ports,
            config,
            self.journal,
            cluster_id=cluster_id,
            endpoints={},
            sender=self.channels,
            policies=self._policies,
            session_timeout_ms=inf,  # the brokers' ZooKeeper sessions have a time-out
        )
        orders = BrokerOrders(
            ports,
            self.channels,
            self.journal.committed_image,
            int(config.node_id),
            _control_listener(self),
        )
        assert self.broker is not None
        self.controller = ZookeeperController(
            ports,
            self.sessions,
            self.election,
            self.journal,
            orders,
            decider,
            self.channels,
            partial(_known_topic_ids, self.broker),
        )

    def _serve(self, broker: Broker) -> None:
        assert self.controller is not None
        config = self.config
        own = OwnLoggers(int(config.node_id), self._loggers)
        cordoned = CordonedDirectories(config.node_id, config.log_dirs, broker.authorizer)
        audit = self.controller.decider.change_audit
        tokens = self.token_requests = TokenRequests(
            self.ports, self.config, self._tokens, broker.image, lambda: self.is_controller, audit
        )
        tokens.watch_expiry()
        own_configs = OwnConfigs(self.sessions, self.config)
        requests = (AclRequests(self._acls, audit), tokens)
        for table in self.listeners.tables(self.config.broker_listeners):
            add_to(
                table, broker, self.controller, self.control_requests, requests, own_configs, self._gate,
                self._read_again,
            )  # fmt: skip
            if self._enrolment is not None:
                is_kraft, channel = self._enrolment.is_kraft, self._enrolment.channel
                add_forwarding(table, broker, requests, self._gate, is_kraft, channel)
            add_sasl(table)
            own.serve(table)
            cordoned.serve(table)
            guard_with(table, broker.authorizer)
        # The controller's orders arrive here before the broker is ready; clients' requests wait at the gate.
        self.listeners.serve(self.config.broker_listeners)

    # -- the broker's membership -------------------------------------------------------------------

    @property
    def traits(self) -> ClusterTraits:
        return dataclasses.replace(TRAITS, orders_broker_epochs=not self.ensemble.migrates)

    @property
    def to_controllers(self) -> Sender:
        return self._enrolment or self.channels

    def open_lifecycle(self, identity: BrokerIdentity, controller: ControllerChannel) -> Lifecycle:
        """The lifecycle of a registration in ZooKeeper, and with the quorum where the cluster migrates."""
        registration = ZookeeperRegistration(
            self.ports,
            self.sessions,
            controller,
            identity,
            is_registered=self._is_registered,
            on_registered=self.election.stand,
            registration_timeout_ms=self.config.broker.registration_timeout_ms,
        )
        if self._enrolment is not None:
            return self._enrolment.lifecycle(identity, registration)
        return registration

    def _is_registered(self, epoch: int) -> bool:
        assert self.broker is not None
        known = self.broker.image.brokers.get(self.broker.node_id)
        epochs = [epoch] if self._enrolment is None else [epoch, self._enrolment.broker_epoch]
        return known is not None and known.epoch in epochs and not known.fenced

    def _incarnation(self, of_quorum: bool) -> Incarnation:
        broker, enrolment = self.broker, self._enrolment
        assert broker is not None
        epoch = broker.lifecycle.broker_epoch
        if enrolment is not None and isinstance(broker.lifecycle, MigratingLifecycle):
            of_zookeeper = broker.lifecycle.zookeeper.broker_epoch
            epoch = enrolment.broker_epoch if of_quorum else of_zookeeper
        return Incarnation(broker.node_id, epoch, broker.incarnation)

    def controller_endpoint(self) -> tuple[int, Endpoint] | Endpoint | None:
        """The active controller, by ZooKeeper or by the quorum; None while it is not known."""
        if self._enrolment is not None and self.election.is_kraft:
            return self._enrolment.controller_endpoint
        endpoint = self.election.controller_endpoint
        return None if endpoint is None else (self.election.controller_id, endpoint)

    def named_controller(self) -> int | None:
        """The controller that ZooKeeper names, or a later one whose orders this broker follows: so a broker
        that names others names their controller, as in Kafka. None under a KRaft controller."""
        election, orders = self.election, self.control_requests
        if election.is_kraft:
            return None
        if orders.controller_epoch <= election.known_epoch:
            return election.controller_id
        return None if orders.is_kraft else orders.controller_id

    @property
    def is_ready(self) -> bool:
        """Whether the controller's metadata, as this broker has them, name this registration as alive."""
        broker = self.broker
        if broker is None or not broker.is_started:
            return False
        return self._is_registered(broker.lifecycle.broker_epoch)

    @property
    def is_controller(self) -> bool:
        return self.controller is not None and self.controller.decider.may_decide

    def on_ready(self) -> None:
        """The broker is ready: requests of clients, which have waited, are served."""
        self.ports.log("info", "broker.ready", broker=int(self.config.node_id))
        self._gate.open()

    # -- configurations ----------------------------------------------------------------------------

    def _configs_in_use(self) -> list[str]:
        assert self.broker is not None
        topics = [f"topics/{name}" for name in self.broker.image.topics_by_name]
        return [f"brokers/{DEFAULT}", f"brokers/{self.broker.node_id}", *topics, *self._entities]

    def _read_own_configs(self) -> None:
        self._config_watch.on_connected(True)

    def _on_config(self, entity: str, values: Mapping[str, str]) -> None:
        """Apply the configuration read from a znode to this broker's image, and to its controller's."""
        broker = self.broker
        assert broker is not None
        resource = resource_of(entity)
        if resource is None:
            self._on_client_entity(entity, values)
        elif resource[0] != TOPIC or resource[1] in broker.image.topics_by_name:
            self.control_requests.replay(config_records(broker.image, *resource, values))
        self._tell_controller(entity)

    def _read_again(self, entities: Sequence[str], done: Callable[[], None]) -> None:
        """Read the configurations of `entities` again, then call `done`. Syncs first, so that all earlier
        writes are seen even if this session's ZooKeeper server lags."""
        left = set(entities)

        def on_one(entity: str, values: Mapping[str, str]) -> None:
            self._on_config(entity, values)
            left.discard(entity)
            if not left:
                done()

        def on_synced(_: object) -> None:
            for entity in sorted(left):
                self._config_watch.read(entity, on_one)

        self.sessions.ask(SyncPath(CONFIG), on_synced)

    def _on_client_entity(self, entity: str, values: Mapping[str, str]) -> None:
        """Apply changed quotas and SCRAM credentials of a user, a client or an IP address."""
        try:
            records = config_changes(entity, self._entities.get(entity, {}), values)
        except MalformedZnode as error:
            self.ports.log("error", "zookeeper.znode_unreadable", error=error)
            return
        self._entities[entity] = values
        self.control_requests.replay(records)

    def _tell_controller(self, entity: str) -> None:
        """Have the controller on this broker, if it is active, apply a configuration that others wrote.
        Waits and reads it again if the controller itself writes meanwhile."""
        journal, controller = self.journal, self.controller
        assert controller is not None
        decider = controller.decider
        if not decider.may_decide:
            return
        at_ms = self.ports.clock.now_ms() + 200.0
        later = partial(self._tell_controller, entity)
        if not journal.is_idle:
            self.ports.wakeups.call_at(at_ms, later)
            return
        before = journal.log_end_offset

        def on_read(entity: str, values: Mapping[str, str]) -> None:
            if not decider.may_decide:
                return
            if journal.log_end_offset != before:
                self.ports.wakeups.call_at(at_ms, later)
                return
            resource = resource_of(entity)
            if resource is not None and resource[0] == TOPIC:
                if resource[1] not in decider.image.topics_by_name:
                    return
            try:
                records = config_changes(entity, journal.layout.configs.get(entity, {}), values)
            except MalformedZnode:  # `_on_client_entity` has logged it
                return
            if records:
                why = f"the configuration of {entity} was changed in ZooKeeper"
                journal.observe(lambda: decider.commit(Decision(None, records, why)))

        self._config_watch.read(entity, on_read)

    def _scram_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        if self.broker is None:
            return None
        return scram_credential(self.broker.image.scram_credentials, mechanism, user)

    def _known_image(self) -> MetadataImage:
        """The broker's image; an empty one before there is a broker."""
        return MetadataImage() if self.broker is None else self.broker.image

    # -- the end -----------------------------------------------------------------------------------

    def begin_shutdown(self, on_done: Callable[[], None]) -> None:
        """Begin a controlled shutdown: move the leaderships away, close the logs, end the session, then call
        `on_done`."""
        if self.is_stopping:
            return
        self.is_stopping = True
        finished: list[None] = []

        def finish() -> None:
            if finished:
                return
            finished.append(None)
            self._endpoint.close()
            self.listeners.close()
            self.channels.close()
            self._policies.close()
            on_done()

        def session_ends() -> None:
            self.ports.wakeups.call_at(self.ports.clock.now_ms() + SESSION_ENDS_MS_MAX, finish)
            self.sessions.close(finish)

        def broker_left() -> None:
            if self._enrolment is None:
                session_ends()
            else:
                self._enrolment.close(session_ends)

        def no_client_is_served() -> None:
            self.listeners.end(self.config.broker_listeners)

        if self.broker is not None and self.broker.is_started:
            self.broker.begin_shutdown(broker_left, no_client_is_served)
        else:
            broker_left()

    def validate(self) -> None:
        """Its controller, journal and registration. Raises AssertionError."""
        if self.controller is not None:
            self.controller.validate()
            self.journal.validate()
        if self.broker is not None and self.broker.is_started:
            lifecycle = self.broker.lifecycle
            assert isinstance(lifecycle, (MigratingLifecycle, ZookeeperRegistration))
            lifecycle.validate()

    @property
    def logs_closed(self) -> int:
        """Number of logs that the shutdown has closed: shows whether it makes progress."""
        return 0 if self.broker is None else self.broker.logs_closed

    def describe(self) -> dict[str, object]:
        """State for metrics, logs and the CLI."""
        return {
            "node": int(self.config.node_id),
            "zookeeper": repr(self.sessions),
            "controller": self.controller.describe() if self.controller else None,
            "quorum": self._enrolment.describe() if self._enrolment else None,
            "broker": self.broker.describe() if self.broker else None,
            "listeners": self.listeners.describe(),
        }

    def __repr__(self) -> str:
        return f"ZookeeperNode({self.config!r})"


def _known_topic_ids(broker: Broker) -> dict[str, Uuid]:
    """The ids of topics, by name: those of the logs that this broker has, and those that a controller has
    named."""
    logs = broker.logs.logs.values()
    known = {log.partition.topic: log.topic_id for log in logs if log.topic_id is not None}
    return known | {name: topic.id for name, topic in broker.image.topics_by_name.items()}


def _no_features() -> Features:
    """No features: ZooKeeper clusters of Kafka 3.9 have none to finalize."""
    return Features({}, {}, -1)


def _address_rate(node: ZookeeperNode, host: str) -> float | None:
    """How many connections the address `host` may make in a second; None without a limit."""
    return None if node.broker is None else node.broker.quotas.connection_rate(host)


def _control_listener(node: ZookeeperNode) -> str:
    """Name of the listener for the controller's orders and for requests to the controller."""
    name = node.ensemble.control_plane_listener
    return (name or node.config.inter_broker_listener_name).upper()


def _follow_controller(node: ZookeeperNode) -> None:
    """The controller has changed."""
    assert node.broker is not None
    node.broker.on_controller_change()
