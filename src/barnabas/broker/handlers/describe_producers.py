"""DescribeProducers.

Behaviour: the producers in a replica's producer state, on leader and followers: epoch, last sequence, last
timestamp, and the first offset of an open transaction (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_producers_request import DescribeProducersRequest
from barnabas.wire.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasReplicas


API = Api(
    ApiKey.DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    mirrored_error(DescribeProducersRequest, DescribeProducersResponse),
    "topic",
    "read",
)


def handle(
    request: DescribeProducersRequest, ctx: RequestContext, broker: HasReplicas
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(broker, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: HasReplicas, topic: str, index: int) -> PartitionResponse:
    try:
        partition, code = broker.replicas.find((topic, index))
        if partition is None:
            raise KafkaError(code, f"no replica of {topic}-{index} here")
        log = partition.online_log()
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    return PartitionResponse(
        partition_index=index,
        error_message=None,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=(
                    -1 if entry.transaction_start is None else entry.transaction_start
                ),
            )
            for producer_id, entry in sorted(log.producers.entries.items())
        ],
    )
