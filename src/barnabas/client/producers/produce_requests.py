"""The parts of Produce that every producer has: a request of encoded batches, and the answers by partition.

Source: Kafka's ``Sender``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.types import Buffer, TopicPartition, Uuid, by_topic, new_tuple
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse

ACKS_ALL = -1
ACCEPTED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
"""The batch is in the log, now or since before."""
IDENTITY_LOST = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""The producer's id and sequences cannot be used any more."""


def produce_request(
    batches: Iterable[tuple[TopicPartition, Buffer]],
    topic_id: Callable[[str], Uuid],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    """A request with one batch for each partition."""
    topics = by_topic(
        (partition.topic, PartitionProduceData(index=partition.partition, records=records))
        for partition, records in batches
    )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=name, topic_id=topic_id(name), partition_data=data)
            for name, data in topics.items()
        ],
    )


def answers_of(
    response: ProduceResponse, name_of: Callable[[Uuid], str | None]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """The answer for each partition. From version 13 on topics have ids, which `name_of` knows."""
    return {
        new_tuple(TopicPartition, (topic.name or name_of(topic.topic_id) or "", partition.index)): (
            partition
        )
        for topic in response.responses
        for partition in topic.partition_responses
    }
