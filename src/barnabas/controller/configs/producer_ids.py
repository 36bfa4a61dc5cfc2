"""Allocates blocks of producer ids to brokers (KIP-730).

Source: Kafka's ``ProducerIdControlManager``.
"""

from __future__ import annotations

from barnabas.controller.broker_epochs import check_epoch
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

BLOCK_SIZE = 1000
"""Ids per block, as in Kafka."""
_LAST = (1 << 63) - 1


def allocate(
    cluster: ControllerContext, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Allocate the next block. Raises STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if all ids are
    used."""
    check_epoch(cluster, request.broker_id, request.broker_epoch)
    first = cluster.image.next_producer_id
    if first > _LAST - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producerIds as the next block's end"
            f" would exceed {_LAST}"
        )  # fmt: skip
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Decision(response, [record], f"broker {request.broker_id} takes ids from {first}")
