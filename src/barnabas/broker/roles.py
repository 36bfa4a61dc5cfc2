"""The parts of a broker that the handlers of its APIs use: one small Protocol each, made of parts that
several share.

A handler's third argument is typed by its role, so that its signature says what it reaches; `Broker` has all
of them. `GroupRole`, for the group APIs, is beside the group coordinators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.broker.coordinator.group_coordinator import GroupRole
from barnabas.broker.leader_hints import LeaderHintsRole

if TYPE_CHECKING:
    from barnabas.broker.client_telemetry import ClientTelemetry
    from barnabas.broker.cluster_view import ClusterView
    from barnabas.broker.controller_client.auto_topic_creation import AutoTopicCreation
    from barnabas.broker.controller_client.broker_lifecycle import BrokerLifecycle
    from barnabas.broker.controller_client.controller_channel import ControllerChannel
    from barnabas.broker.controller_client.metadata_hold import MetadataHold
    from barnabas.broker.controller_client.producer_ids import ProducerIds
    from barnabas.broker.cooperative_jobs import CooperativeJobs
    from barnabas.broker.coordinator.group_coordinator import GroupCoordinators
    from barnabas.broker.coordinator.hashed_partitions import HashedPartitions
    from barnabas.broker.deadlines import Deadlines
    from barnabas.broker.fetch.fetch_service import FetchService
    from barnabas.broker.owning_node import ClientListeners
    from barnabas.broker.replicas.log_dir_moves import LogDirMoves
    from barnabas.broker.replicas.replica_table import ReplicaTable
    from barnabas.broker.share_door import ShareDoor
    from barnabas.broker.transaction.transactions import Transactions
    from barnabas.config.node import NodeConfig
    from barnabas.log.directories.log_directories import LogDirectories
    from barnabas.metadata.image.image import MetadataImage
    from barnabas.ports import Ports
    from barnabas.security.authorization.authorizer import Authorizer
    from barnabas.security.quotas.client_quotas import ClientQuotas
    from barnabas.wire.messages.produce_response import ProduceResponse


class HasPorts(Protocol):
    @property
    def ports(self) -> Ports: ...


class HasImage(Protocol):
    @property
    def image(self) -> MetadataImage: ...


class HasConfig(Protocol):
    @property
    def config(self) -> NodeConfig: ...


class HasNodeId(Protocol):
    @property
    def node_id(self) -> int: ...


class HasListeners(Protocol):
    @property
    def listeners(self) -> ClientListeners: ...


class HasReplicas(Protocol):
    @property
    def replicas(self) -> ReplicaTable: ...


class HasLogs(Protocol):
    @property
    def logs(self) -> LogDirectories: ...


class HasDeadlines(Protocol):
    @property
    def deadlines(self) -> Deadlines: ...


class HasSlices(Protocol):
    @property
    def slices(self) -> CooperativeJobs: ...


class HasAutoTopics(Protocol):
    @property
    def auto_topics(self) -> AutoTopicCreation: ...


class HasTelemetry(Protocol):
    @property
    def telemetry(self) -> ClientTelemetry: ...


class HasClusterId(Protocol):
    @property
    def cluster_id(self) -> str: ...


class HasMetadataHold(Protocol):
    @property
    def metadata_hold(self) -> MetadataHold: ...


class HasHashedPartitions(Protocol):
    @property
    def hashed(self) -> HashedPartitions: ...


class HasTransactions(Protocol):
    @property
    def transactions(self) -> Transactions: ...


class NamesController(Protocol):
    def controller_for_clients(self, view: ClusterView) -> int: ...


class TransactionalWriteRole(HasPorts, HasReplicas, HasTransactions, Protocol):
    """The coordinator is asked whether a write belongs to a transaction (KIP-890)."""

    def broker_texts(self) -> dict[str, str]: ...


class ProduceRole(LeaderHintsRole, TransactionalWriteRole, HasDeadlines, HasSlices, Protocol):
    def finish_produce(self, listener: str, response: ProduceResponse) -> None: ...


class FetchRole(Protocol):
    @property
    def authorizer(self) -> Authorizer | None: ...
    @property
    def fetches(self) -> FetchService: ...
    @property
    def quotas(self) -> ClientQuotas: ...


class ListOffsetsRole(HasPorts, HasReplicas, Protocol):
    """Searches by timestamp read the disk on another thread."""


class DeleteRecordsRole(HasPorts, HasReplicas, HasDeadlines, Protocol):
    """The answer waits for the low watermark of all replicas."""


class MetadataRole(
    HasPorts,
    HasImage,
    HasConfig,
    HasSlices,
    HasAutoTopics,
    HasClusterId,
    HasMetadataHold,
    NamesController,
    HasNodeId,
    HasListeners,
    Protocol,
):
    """Brokers, topics and leaders as the clients of one listener may see them."""


class FindCoordinatorRole(HasImage, HasAutoTopics, HasMetadataHold, HasHashedPartitions, Protocol):
    """The topic of the coordinators is created when it is first asked for."""


class ListTransactionsRole(HasPorts, HasTransactions, Protocol):
    """Transactions by age."""


class AddPartitionsRole(HasImage, HasTransactions, Protocol):
    """Only partitions that exist are added."""


class AddOffsetsRole(HasConfig, AddPartitionsRole, HasHashedPartitions, Protocol):
    """The group's partition of ``__consumer_offsets`` is added."""


class TransactionalOffsetsRole(TransactionalWriteRole, GroupRole, HasImage, Protocol):
    """Offsets are committed with a transaction."""


class MarkersRole(GroupRole, HasPorts, HasConfig, HasReplicas, HasDeadlines, Protocol):
    """Control batches are appended, and groups learn of them."""


class HasShares(Protocol):
    @property
    def shares(self) -> ShareDoor: ...


class ShareRole(LeaderHintsRole, HasPorts, HasShares, GroupRole, FetchRole, Protocol):
    """Members of share groups fetch and acknowledge, share coordinators keep it."""


class ShareGroupRole(GroupRole, HasShares, HasTransactions, Protocol):
    """Share groups, and their state at the share coordinators."""


class StreamsGroupRole(GroupRole, HasAutoTopics, Protocol):
    """Streams groups, and their internal topics."""


class ProducerIdRole(HasTransactions, Protocol):
    @property
    def producer_ids(self) -> ProducerIds: ...


class DescribeClusterRole(
    HasPorts,
    HasImage,
    HasSlices,
    HasClusterId,
    HasTelemetry,
    HasTransactions,
    NamesController,
    Protocol,
):
    """The brokers as the clients of one listener reach them, and what this one counts."""

    @property
    def groups(self) -> GroupCoordinators: ...
    @property
    def shares(self) -> ShareDoor: ...
    @property
    def quotas(self) -> ClientQuotas: ...

    @property
    def listeners(self) -> ClientListeners: ...


class DescribeConfigsRole(HasImage, HasConfig, HasNodeId, Protocol):
    """The metadata's values over those of this broker's own file."""


class DescribePartitionsRole(HasImage, HasConfig, Protocol):
    """Partitions of topics in pages."""


class DescribeLogDirsRole(HasPorts, HasImage, HasLogs, HasNodeId, Protocol):
    """Sizes of replicas by log directory."""


class AlterLogDirsRole(HasPorts, HasImage, HasLogs, Protocol):
    @property
    def lifecycle(self) -> BrokerLifecycle: ...
    @property
    def moves(self) -> LogDirMoves: ...


class ForwardingRole(HasConfig, Protocol):
    """Requests are handed on to the active controller."""

    @property
    def controller(self) -> ControllerChannel: ...


class TokenRole(HasImage, HasConfig, Protocol):
    """Delegation tokens, and the key of their HMACs."""


class DynamicConfigRole(
    HasPorts, HasImage, HasLogs, HasNodeId, HasListeners, HasReplicas, Protocol
):
    def broker_texts(self) -> dict[str, str]: ...
