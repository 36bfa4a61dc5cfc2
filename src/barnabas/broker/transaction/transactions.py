"""The parts of a broker that serve transactions, connected: ``broker.transactions``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.controller_client.controller_channel import Sender
from barnabas.broker.coordinator.coordinator_log import begin_leading, end_leading
from barnabas.broker.coordinator.transaction_coordinator import TransactionCoordinators
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.transaction.markers import Markers
from barnabas.broker.transaction.partition_verifier import (
    Backoff,
    CoordinatorVerifier,
    PartitionVerifier,
)
from barnabas.broker.transaction.peers import Peers
from barnabas.metadata.features import TRANSACTION_VERSION
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.types import TRANSACTIONS_TOPIC, Endpoint
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.controller_client.producer_ids import ProducerIds
    from barnabas.broker.coordinator.hashed_partitions import HashedPartitions
    from barnabas.broker.replicas.replica_table import ReplicaTable
    from barnabas.config.node import NodeConfig
    from barnabas.metadata.image.image import MetadataImage
    from barnabas.ports import Ports


class TransactionsHost(Protocol):
    """The broker around them."""

    @property
    def ports(self) -> Ports: ...
    @property
    def config(self) -> NodeConfig: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def node_id(self) -> int: ...
    @property
    def producer_ids(self) -> ProducerIds: ...
    @property
    def replicas(self) -> ReplicaTable: ...
    @property
    def hashed(self) -> HashedPartitions: ...

    def inter_broker_endpoint(self, broker: int) -> Endpoint | None: ...


class Transactions:
    """The coordinators, markers and verifiers of one broker."""

    def __init__(
        self,
        broker: TransactionsHost,
        channels: Sender,
        serve: Callable[[Message], Message | Parked | None],
    ) -> None:
        """`serve` answers a request that this broker sends to itself."""
        config = broker.config
        partitions = partial(broker.hashed.of, TRANSACTIONS_TOPIC)
        self._broker = broker
        self.peers = Peers(
            broker.ports,
            channels,
            broker.node_id,
            broker.inter_broker_endpoint,
            serve,
            config.broker.request_timeout_ms,
        )
        self.coordinators = TransactionCoordinators(
            config,
            broker.ports,
            partitions,
            self.level,
            broker.producer_ids.allocate,
            partial(broker.replicas.waits_to_lead, TRANSACTIONS_TOPIC),
        )
        self.markers = Markers(broker.ports, self.peers, broker.image, self.coordinators)
        self.coordinators.markers = self.markers
        settings = config.transactions
        self.verifier: PartitionVerifier = CoordinatorVerifier(
            broker.ports,
            self.peers,
            self.coordinator_of,
            Backoff(settings.retry_pause_ms, settings.retry_total_ms),
        )

    def level(self) -> int:
        """The cluster's ``transaction.version``."""
        return self._broker.image.features.get(TRANSACTION_VERSION, 0)

    def coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that leads the transactional id's partition; None while there is none."""
        topic = self._broker.image.topics_by_name.get(TRANSACTIONS_TOPIC)
        index = self._broker.hashed.partition_for(TRANSACTIONS_TOPIC, transactional_id)
        if topic is None or not topic.has(index):
            return None
        leader: int = topic.leader[index]
        known = self._broker.image.brokers.get(leader)
        return leader if known is not None and not known.fenced else None

    def start(self) -> None:
        """The logs are open: begin to coordinate the partitions that this broker leads."""
        self._broker.replicas.on_leadership(TRANSACTIONS_TOPIC, self._on_leadership)

    def _on_leadership(self, partition: Partition, epoch: int | None) -> None:
        if epoch is None:
            end_leading(self.coordinators, partition)
        else:
            begin_leading(self.coordinators, partition)

    def on_metadata(self, changes: ImageChanges) -> None:
        """Take note of changes that the image's committed records made."""
        if changes.partitions or changes.brokers or changes.topics_deleted or changes.everything:
            self.markers.on_metadata_change()

    def close(self) -> None:
        """The broker ends: answer all requests that wait."""
        self.coordinators.close()
        self.markers.close()

    def describe(self) -> dict[str, object]:
        """The state of the parts, for tools and failing tests."""
        return {"coordinators": self.coordinators.describe(), "markers": self.markers.describe()}
