"""OffsetForLeaderEpoch.

Behaviour: returns for each partition the largest epoch that is not above the requested one, and the
offset after its last record, from the leader's log; (-1, -1) if the log knows none (KIP-101,
KIP-279, KIP-320).

Version notes: 2 fences by the current leader epoch, 3 names the replica that asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from barnabas.wire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasReplicas


API = Api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    mirrored_error(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    "topic",
    "describe",
)


def handle(
    request: OffsetForLeaderEpochRequest, ctx: RequestContext, broker: HasReplicas
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: HasReplicas, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition, code = broker.replicas.find((topic, asked.partition))
        if partition is None:
            raise KafkaError(code, "no replica here")
        log = partition.readable_log(asked.current_leader_epoch, leader_only=True)
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    epoch, end = log.epoch_end_offset(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
