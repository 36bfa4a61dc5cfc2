"""Checks the broker epoch in a broker's request.

Source: Kafka's ``ClusterControlManager.checkBrokerEpoch``.
"""

from __future__ import annotations

from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.wire.errors import ErrorCode, KafkaError


def check_epoch(cluster: ControllerContext, broker: int, epoch: int) -> BrokerRegistration:
    """The registration of `broker`. Raises STALE_BROKER_EPOCH if there is none, or it has another epoch."""
    known = cluster.image.brokers.get(broker)
    if known is None:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker}"
        )
    if known.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {known.epoch} but got broker epoch {epoch}",
        )
    return known
