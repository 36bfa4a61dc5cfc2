"""What a broker does for transactions, put together: ``broker.transactions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller_channel import Sender
from barnabas.broker.coordinators import partition_of
from barnabas.broker.transaction.partition_verifier import (
    Backoff,
    CoordinatorVerifier,
    PartitionVerifier,
)
from barnabas.broker.transaction.peers import Peers
from barnabas.types import TRANSACTIONS_TOPIC
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


class Transactions:
    """The parts, and who coordinates what."""

    def __init__(self, broker: Broker, channels: Sender) -> None:
        config = broker.config
        self._broker = broker
        self.peers = Peers(
            broker.ports,
            channels,
            broker.node_id,
            broker.inter_broker_endpoint,
            self._serve,
            config.broker.request_timeout_ms,
        )
        settings = config.transactions
        self.verifier: PartitionVerifier = CoordinatorVerifier(
            broker.ports,
            self.peers,
            self.coordinator_of,
            Backoff(settings.retry_pause_ms, settings.retry_total_ms),
        )

    def coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that leads the transactional id's partition; None while there is none."""
        topic = self._broker.image.topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.leader[partition_of(transactional_id, len(topic))]
        known = self._broker.image.brokers.get(leader)
        return leader if known is not None and not known.fenced else None

    def _serve(self, request: Message) -> Message | Parked | None:
        from barnabas.broker import handlers  # they import the broker's class

        return handlers.serve_own(request, self._broker)
