"""The broker role of a node, assembled: replicas, fetches, lifecycle, coordinators, its APIs.

Constructed with the ports, the node's configuration, and what the node knows before anything runs:
the identities of the log directories, the channels to brokers, the committed image, the listeners that
clients use, and the broker's membership in its cluster (`owning_node`). The node tells it of committed
metadata (`on_metadata`) and of a change of controller (`on_controller_change`).

Nothing is decided here; this class is the ``role`` that the handlers get.

Source: Kafka's ``BrokerServer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from barnabas.broker.client_telemetry import ClientTelemetry
from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.controller_client.auto_topic_creation import AutoTopicCreation
from barnabas.broker.controller_client.broker_lifecycle import BrokerIdentity, Lifecycle
from barnabas.broker.controller_client.controller_channel import ControllerChannel, ProbingSender
from barnabas.broker.controller_client.metadata_hold import MetadataHold
from barnabas.broker.controller_client.producer_ids import ProducerIds
from barnabas.broker.cooperative_jobs import CooperativeJobs
from barnabas.broker.coordinator.coordinator_log import begin_leading, end_leading
from barnabas.broker.coordinator.coordinators import Coordinators
from barnabas.broker.coordinator.group_coordinator import GroupCoordinators
from barnabas.broker.coordinator.hashed_partitions import HashedPartitions
from barnabas.broker.deadlines import Deadlines
from barnabas.broker.dynamic_config import apply_dynamic, valid_values
from barnabas.broker.fetch.fetch_service import FetchLimits, FetchService
from barnabas.broker.fetch.replica_selector import RackAwareReplicaSelector, replica_selector
from barnabas.broker.follower.fetcher import FetcherContext
from barnabas.broker.follower.fetcher_pool import FetcherPool
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
from barnabas.broker.handlers import serve_own
from barnabas.broker.leader_hints import add_fetch_leaders, add_produce_leaders
from barnabas.broker.owning_node import BrokerMembership, ClientListeners
from barnabas.broker.partitions.alter_partition_sender import AlterPartitionSender
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.replicas.directory_assignments import DirectoryAssignments
from barnabas.broker.replicas.isr_rules import IsrRules
from barnabas.broker.replicas.log_dir_moves import LogDirMoves
from barnabas.broker.replicas.log_repairs import LogRepairs
from barnabas.broker.replicas.replica_directories import ReplicaDirectories
from barnabas.broker.replicas.replica_index import ReplicaIndex
from barnabas.broker.replicas.replica_table import ReplicaTable
from barnabas.broker.replicas.topic_configs import TopicConfigs
from barnabas.broker.share_door import ShareDoor
from barnabas.broker.transaction.transactions import Transactions
from barnabas.config.listeners import PROTOCOLS
from barnabas.config.meta_properties import MetaProperties, normal_path
from barnabas.config.node import NodeConfig
from barnabas.log.checkpoints import HIGH_WATERMARK
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.metadata.features import DIRECTORIES_SINCE
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT, MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.ports import Ports, Wakeup, no_work
from barnabas.replication.sessions import PartitionKey
from barnabas.security.authorization.authorizer import authorizer_of
from barnabas.security.quotas.client_quotas import ClientQuotas, QuotaWindows
from barnabas.types import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    Endpoint,
    TopicPartition,
    Uuid,
)
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.produce_response import ProduceResponse


class Broker:
    """One broker. Attributes are the parts that handlers use."""

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        identities: Mapping[str, MetaProperties],
        channels: ProbingSender,
        image: MetadataImage,
        listeners: ClientListeners,
        membership: BrokerMembership,
    ) -> None:
        """`identities` are the ``meta.properties`` of each readable path of ``log.dirs``, at least one;
        `channels` lead to brokers."""
        self.ports, self.config, self._membership = ports, config, membership
        self.cluster_id = next(iter(identities.values())).cluster_id
        self.image, self.traits = image, membership.traits
        self.authorizer = authorizer_of(config.properties, image, ports.log, ports.clock.now_ms)
        windows = QuotaWindows.of(config.properties)
        self.quotas = ClientQuotas(image, ports.clock.now_ms, windows, listeners.measure)
        self.node_id, self.listeners = int(config.node_id), listeners
        self._lifecycle: Lifecycle | None = None
        self._dynamic_version = self._last_epoch = -1
        self._texts: dict[str, str] = {}
        self._admitted = self._stopping = self._ready = False
        self._stopped: Callable[[], None] | None = None
        self._timers: dict[str, Wakeup] = {}

        self.controller = ControllerChannel(
            ports,
            membership.to_controllers,
            config.broker.request_timeout_ms,
            self.on_controller_change,
        )
        self.deadlines, self.slices = Deadlines(ports), CooperativeJobs(ports)
        self.metadata_hold = self._watch_leaders(channels)
        self.brokers_died = self.metadata_hold.shown
        selector = replica_selector(config.replication.selector, image, self.node_id)
        index, configs = ReplicaIndex(image), TopicConfigs(image, self.broker_texts)
        known = {path: identities.get(path) for path in config.log_dirs}
        reports = self._on_directory_offline, self._on_copy_gone
        self.logs = LogDirectories(ports, config.logs, known, configs.log_config, *reports)
        self.throttle = ReplicationThrottle(ports.clock, self.node_id, image, self.broker_texts)
        self.fetches = _fetch_service(self, index, selector)
        epoch = self._broker_epoch
        self.isr_sender = AlterPartitionSender(ports, self.controller, self.node_id, epoch)
        self.repairs = LogRepairs(
            ports, channels, self.node_id, index, self.logs, self.inter_broker_endpoint
        )
        self.replicas = ReplicaTable(
            ports,
            index,
            configs,
            _replica_directories(self),
            IsrRules(image, config.replication.lag_time_ms_max, self.isr_sender),
            FetcherPool(self._fetcher_context(channels)),
            self.fetches,
        )
        self.producer_ids = ProducerIds(self.controller, self.node_id, self._broker_epoch)
        self.auto_topics = AutoTopicCreation(
            ports, self.controller, config, image, self.traits.takes_envelopes
        )
        self.assignments = DirectoryAssignments(ports, self.controller, self.node_id, epoch)
        self.telemetry = ClientTelemetry(ports, image, config.broker.telemetry_bytes_max)
        self.moves = LogDirMoves(ports, self.replicas, self.assignments, self.broker_texts)
        self.hashed = _hashed_partitions(self)
        self.groups = _group_coordinators(self)
        self.transactions = Transactions(self, channels, partial(serve_own, broker=self))
        self.shares = ShareDoor(self)
        self.incarnation = Uuid(ports.rng("broker.incarnation").randbytes(16))

    def _fetcher_context(self, channels: ProbingSender) -> FetcherContext:
        return FetcherContext(
            self.ports,
            channels,
            self.node_id,
            self.config.replication,
            self._fetching_epoch,
            self.inter_broker_endpoint,
            self.metadata_hold.on_lost,
            self.metadata_hold.on_reached,
            self.throttle,
        )

    def _broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    def _fetching_epoch(self) -> int:
        """The broker epoch sent to leaders: the last registration's, even if the controller has forgotten it
        since or its answer is still to come. -1 is no epoch, and any incarnation would pass (KIP-903): so
        fetches a broker whose epochs have no order."""
        if not self.traits.orders_broker_epochs:
            return -1
        known = self.image.brokers.get(self.node_id)
        seen = -1 if known is None or known.incarnation != self.incarnation else known.epoch
        self._last_epoch = max(self._last_epoch, seen, self.lifecycle.broker_epoch)
        return self._last_epoch

    def inter_broker_endpoint(self, broker: int) -> Endpoint | None:
        """The address at which other brokers reach `broker`."""
        known = self.image.brokers.get(broker)
        return None if known is None else known.endpoint(self.config.inter_broker_listener_name)

    def _watch_leaders(self, channels: ProbingSender) -> MetadataHold:
        def probe(broker: int, on_done: Callable[[bool], None]) -> None:
            endpoint = self.inter_broker_endpoint(broker)
            if endpoint is not None:
                channels.probe(endpoint, on_done)

        clock = self.ports.clock
        return MetadataHold(self.node_id, clock, self.deadlines, self.image, probe)

    # -- start -----------------------------------------------------------------------------------

    def start(self, between_logs: Callable[[], None] = no_work) -> None:
        """Open the logs (blocks) and introduce this broker to the controller. Raises ``OSError``
        where no log directory is usable."""
        self.logs.open(between_logs)
        self.hashed.load()
        self.replicas.on_leadership(OFFSETS_TOPIC, self._on_offsets_leadership)
        self.transactions.start()
        self.shares.start()
        self._lifecycle = self._membership.open_lifecycle(self._identity(), self.controller)
        replication = self.config.replication
        self._every(
            "high watermarks",
            replication.high_watermark_checkpoint_interval_ms,
            self._checkpoint_high_watermarks,
        )
        self._every("isr", replication.lag_time_ms_max / 2, self.replicas.check_isrs)
        self.on_controller_change()
        self.lifecycle.start()

    def _identity(self) -> BrokerIdentity:
        protocols = {spec.name: PROTOCOLS.index(spec.protocol) for spec in self.config.listeners}
        return BrokerIdentity(
            self.node_id,
            self.cluster_id,
            self.incarnation,
            {name: (at, protocols.get(name, 0)) for name, at in self.listeners.endpoints.items()},
            self.config.rack,
            [d.directory_id for d in self.logs.directories if d.is_online],
            # It is unknown whether the logs in an offline directory were closed cleanly.
            -1 if self.logs.any_offline else self.logs.previous_broker_epoch,
        )

    @property
    def lifecycle(self) -> Lifecycle:
        """The lifecycle of this broker's registration; `start` opens it."""
        assert self._lifecycle is not None, "the broker has not been started"
        return self._lifecycle

    @property
    def is_started(self) -> bool:
        return self._lifecycle is not None

    def _maybe_admit(self) -> ImageChanges:
        """Take up roles once the image holds this incarnation's registration, and with it what the
        controller took away from the previous one. An earlier image is out of date: a leader that lost
        its log in a power failure would lead on in its old epoch (seed 41)."""
        known = self.image.brokers.get(self.node_id)
        if known is None or known.incarnation != self.incarnation:
            return ImageChanges()
        self._admitted = True
        self.logs.begin_writing()
        return ImageChanges(everything=True)

    # -- what the node tells ---------------------------------------------------------------------

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """The image moved by committed records."""
        if not self.is_started or (self._stopping and self._stopped is None):
            return
        self.quotas.follow()
        if not self._admitted:
            self._apply_cordoned()  # the heartbeat upon which the broker is unfenced says so
            self.lifecycle.on_metadata(changes.everything or self.node_id in changes.brokers)
            changes = self._maybe_admit()
            if not changes:
                return
        if changes.topics_deleted or changes.everything:
            _end_former_coordinators(self)
        if changes.everything or changes.topics_created or changes.partitions:
            self.hashed.on_metadata()
        self.replicas.apply(changes)
        if changes.everything:
            self.moves.ask_again()
            self.replicas.apply_queue.when_done(self.moves.resume)
        self.metadata_hold.on_metadata(changes)
        self.transactions.on_metadata(changes)
        self.groups.on_metadata(image, changes)
        self.shares.on_metadata(changes)
        if changes.topics_deleted:
            self.groups.on_topics_deleted(changes.topics_deleted)
        self.auto_topics.on_metadata(changes)
        if changes.features or changes.everything or self.node_id in changes.brokers:
            _name_directories(self)
        if changes.everything or any(kind == BROKER for kind, _ in changes.configs):
            self._apply_cordoned()
            apply_dynamic(self)
        self.lifecycle.on_metadata(
            changes.everything or self.node_id in changes.brokers or _any_leaves(image, changes)
        )
        self._maybe_ready()

    def _apply_cordoned(self) -> None:
        """Directories that take no new replicas; ``*`` is all of them (KIP-1066)."""
        text = self.broker_texts().get("cordoned.log.dirs", "")
        paths = {normal_path(path.strip()) for path in text.split(",") if path.strip()}
        online = [d for d in self.logs.directories if d.is_online]
        self.lifecycle.set_cordoned(
            [d.directory_id for d in online if d.path in paths or "*" in paths]
        )

    def _maybe_ready(self) -> None:
        known = None if self._ready else self.image.brokers.get(self.node_id)
        if known is not None and not known.fenced and known.epoch == self.lifecycle.broker_epoch:
            self._ready = True
            self._membership.on_ready()

    def on_controller_change(self) -> None:
        """Another controller is active, or none is known to be."""
        at = self._membership.controller_endpoint()
        if at is None or isinstance(at, Endpoint):
            self.controller.on_controller_change(-1, at)
        else:
            self.controller.on_controller_change(*at)
        if at is not None and self.is_started:
            self.lifecycle.on_controller_change()

    # -- what the replica table asks -------------------------------------------------------------

    def broker_texts(self) -> dict[str, str]:
        """This broker's configuration as text: its own dynamic values, over the cluster's, over its
        properties. What is no value of its key is left out."""
        if self._dynamic_version != self.image.config_version:
            self._dynamic_version = self.image.config_version
            self._texts = {
                **self.config.texts,
                **valid_values(self.image.config(BROKER, CLUSTER_DEFAULT)),
                **valid_values(self.image.config(BROKER, str(self.node_id))),
            }
        return self._texts

    def on_directory_chosen(self, partition: Partition, directory: Uuid) -> None:
        self.assignments.submit(partition, directory)

    def _on_directory_offline(
        self, directory: LogDirectory, partitions: list[TopicPartition]
    ) -> None:
        self.replicas.on_directory_offline(directory, partitions)
        self.moves.end_stale_moves()
        if self.is_started:
            self.lifecycle.on_directory_offline(directory.directory_id)
            if not any(d.is_online for d in self.logs.directories):
                self.ports.halt("every log directory has failed")

    def _on_copy_gone(self) -> None:
        self.moves.end_stale_moves()

    def _on_offsets_leadership(self, partition: Partition, epoch: int | None) -> None:
        if epoch is None:
            end_leading(self.groups, partition)
        else:
            begin_leading(self.groups, partition)

    # -- what handlers ask -----------------------------------------------------------------------

    def finish_produce(self, listener: str, response: ProduceResponse) -> None:
        """A produce request of `listener` waited and failed in part: say who leads now."""
        add_produce_leaders(self, response, listener)

    def add_fetch_leaders(
        self, response: FetchResponse, listener: str, found: dict[PartitionKey, Partition | None]
    ) -> None:
        """A fetch of `listener` has failed in part: say who leads now."""
        add_fetch_leaders(self, response, listener, found)

    def controller_for_clients(self, view: ClusterView) -> int:
        """A broker to send administration to; -1 where none is there. Any of them forwards, so it is this
        one, which is certainly alive; another one where this one is fenced or about to leave. Where a
        broker is the controller it is named, as in Kafka 3.9."""
        named = self._membership.named_controller()
        if named is not None:
            return (
                -1 if self.metadata_hold.is_lost(named) or view.endpoint(named) is None else named
            )
        if view.endpoint(self.node_id) is not None and not self._stopping:
            return self.node_id
        for broker in view.live_brokers():
            leaves = self.image.brokers[broker.id].in_controlled_shutdown
            if (
                broker.id != self.node_id
                and not leaves
                and not self.metadata_hold.is_lost(broker.id)
            ):
                return broker.id
        return self.node_id if view.endpoint(self.node_id) is not None else -1

    # -- upkeep ----------------------------------------------------------------------------------

    def _every(self, name: str, interval_ms: float, action: Callable[[], object]) -> None:
        def run() -> None:
            try:
                action()
            finally:  # a fault is not the end of it
                arm()

        def arm() -> None:
            self._timers[name] = self.ports.wakeups.call_at(
                self.ports.clock.now_ms() + interval_ms, run
            )

        arm()

    def _checkpoint_high_watermarks(self) -> None:
        if self.replicas.marks_moved:
            self.replicas.marks_moved = False
            self.logs.checkpoint(HIGH_WATERMARK)

    # -- the end ---------------------------------------------------------------------------------

    def begin_shutdown(self, on_done: Callable[[], None], on_left: Callable[[], None]) -> None:
        """Hand the leaderships over (within seconds, even if no controller answers); call `on_left`, after
        which no client is served; close the logs and write the clean shutdown file; then call `on_done`."""
        if not self.is_started:
            self.ports.wakeups.call_soon(on_done)
            return
        self._stopping = True
        self._stopped = on_done
        self.lifecycle.begin_shutdown(
            partial(self._on_left, on_left), controlled=self.config.broker.controlled_shutdown
        )

    def _on_left(self, on_left: Callable[[], None]) -> None:
        on_done, self._stopped = self._stopped, None
        for timer in self._timers.values():
            timer.cancel()
        self.replicas.apply_queue.clear()
        self.replicas.fetchers.close()
        self.repairs.close()
        self.groups.close()
        self.transactions.close()
        self.shares.close()
        self.moves.close()
        self.deadlines.close()
        self.slices.close()
        self.controller.close()

        on_left()

        def closed() -> None:
            if on_done is not None:
                on_done()

        self.logs.when_synced(partial(self.logs.shutdown, self.lifecycle.broker_epoch, closed))

    @property
    def logs_closed(self) -> int:
        """How far its end has come."""
        return self.logs.log_shutdown.closed if self.logs.log_shutdown is not None else 0

    def describe(self) -> dict[str, object]:
        """State for people, metrics and logs."""
        return {
            "broker": self.node_id,
            "lifecycle": self.lifecycle.describe() if self.is_started else "not started",
            "replicas": self.replicas.describe(),
            "fetch_sessions": len(self.fetches.sessions),
            "waiting": len(self.deadlines),
            "metadata_hold": self.metadata_hold.describe(),
            "throttle": self.throttle.describe(),
            "quotas": self.quotas.describe(),
            "moves": self.moves.describe(),
            "transactions": self.transactions.describe(),
            "shares": self.shares.describe(),
            "damaged": cast("object", self.repairs.describe()),
            "logs": cast("object", self.logs.describe()),
        }

    def __repr__(self) -> str:
        return f"Broker({self.node_id}, {self.replicas!r})"


def _any_leaves(image: MetadataImage, changes: ImageChanges) -> bool:
    return any(
        broker_id in image.brokers and image.brokers[broker_id].in_controlled_shutdown
        for broker_id in changes.brokers
    )


def _name_directories(broker: Broker) -> None:
    """This process registered at a level without log directories, and the present level has them: report the
    directories and where each replica is, or the controller could not learn of one that fails (KIP-858)."""
    known = broker.image.brokers.get(broker.node_id)
    if known is None or known.incarnation != broker.incarnation:
        return
    if known.directories:
        broker.replicas.directories.report_lost()  # they leave ISR and leadership only now
    elif broker.image.metadata_version >= DIRECTORIES_SINCE:
        broker.lifecycle.register_again()
        broker.moves.ask_again()
        broker.replicas.directories.report_all(broker.replicas.by_id)


def _end_former_coordinators(broker: Broker) -> None:
    """End the coordinators of a topic that is gone, and what they write by it, also while the end of its
    replicas here waits for its turn."""
    coordinators: list[Coordinators[Any]] = [broker.groups, broker.transactions.coordinators]
    if broker.shares.opened is not None:
        coordinators.append(broker.shares.opened.coordinators)
    for of_topic in coordinators:
        topic = broker.image.topics_by_name.get(of_topic.topic)
        for index in sorted(of_topic.shards):
            led = broker.replicas.by_name.get((of_topic.topic, index))
            if led is None or topic is None or led.topic_id != topic.id:
                of_topic.on_resigned(index)


def _replica_directories(broker: Broker) -> ReplicaDirectories:
    return ReplicaDirectories(
        broker.node_id,
        broker.image,
        broker.logs,
        broker.on_directory_chosen,
        names_new_replicas=not broker.traits.names_directories,
    )


def _group_coordinators(broker: Broker) -> GroupCoordinators:
    return GroupCoordinators(
        broker.config,
        broker.ports,
        partial(broker.hashed.of, OFFSETS_TOPIC),
        broker,
        partial(broker.replicas.waits_to_lead, OFFSETS_TOPIC),
    )


def _hashed_partitions(broker: Broker) -> HashedPartitions:
    config = broker.config
    return HashedPartitions(
        broker.ports,
        broker.image,
        broker.logs,
        {
            OFFSETS_TOPIC: config.offsets.topic_partitions,
            TRANSACTIONS_TOPIC: config.transactions.topic_partitions,
            SHARE_STATE_TOPIC: config.share_coordinator.topic_partitions,
        },
        may_be_half_created=not broker.traits.creates_topics_at_once,
    )


def _fetch_service(
    broker: Broker, index: ReplicaIndex, selector: RackAwareReplicaSelector | None
) -> FetchService:
    limits = broker.config.broker
    return FetchService(
        broker.ports,
        index.find,
        broker.deadlines,
        broker.slices,
        FetchLimits(limits.fetch_bytes_max, limits.fetch_sessions_max),
        broker,
        broker.throttle,
        selector,
    )
