"""ListOffsets.

Behaviour: the offset of the first record at or after a timestamp, or one of the special ones: latest
(-1: the high watermark, the last stable offset with read_committed, the log's end for followers and
for tools that debug a replica), earliest (-2), the record with the largest timestamp (-3), earliest
local (-4, the same as earliest without a remote tier), latest tiered (-5) and earliest pending upload
(-6): none. OFFSET_NOT_AVAILABLE while the high watermark of a new leader lags behind its epoch.

Version notes: 2 isolation, 4 leader epochs, 5 knows OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before),
7 the largest timestamp, 8 earliest local, 9 latest tiered, 11 earliest pending upload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.partition import Partition
from barnabas.log.partition_log import PartitionLog
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from barnabas.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
CONSUMER = -1
DEBUGGING_REPLICA = -2
READ_COMMITTED = 1


class Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = Found(-1, -1, -1)


def error_response(request: ListOffsetsRequest, code: int, message: str) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.LIST_OFFSETS, ListOffsetsRequest, error_response, "topic", "describe")


def handle(request: ListOffsetsRequest, ctx: RequestContext, broker: Broker) -> ListOffsetsResponse:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(
                        broker, request, ctx, topic.name, asked,
                        (topic.name, asked.partition_index) in twice,
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )  # fmt: skip


def _answer(
    broker: Broker,
    request: ListOffsetsRequest,
    ctx: RequestContext,
    topic: str,
    asked: ListOffsetsPartition,
    twice: bool,
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition stands there twice")
        if asked.timestamp < 0 and ctx.api_version < SPECIAL_SINCE.get(asked.timestamp, 0):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the timestamp is of a later version")
        partition, code = broker.replicas.find((topic, index))
        if partition is None:
            raise KafkaError(code, "no replica here")
        found = _find(partition, request, asked)
    except KafkaError as error:
        code = ErrorCode(error.code)
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and ctx.api_version < 5:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
    except OSError:
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if ctx.api_version >= 4 else -1,
    )


def _find(partition: Partition, request: ListOffsetsRequest, asked: ListOffsetsPartition) -> Found:
    debugging = request.replica_id == DEBUGGING_REPLICA
    log = partition.readable_log(asked.current_leader_epoch, leader_only=not debugging)
    consumer = request.replica_id == CONSUMER
    end = log.log_end_offset
    if consumer:
        end = (
            log.last_stable_offset
            if request.isolation_level == READ_COMMITTED
            else log.high_watermark
        )
    leader = partition.leader
    # Until the high watermark has reached this leader's epoch, what lies behind it is unknown.
    lags = consumer and leader is not None and leader.epoch_start_offset > log.high_watermark
    timestamp = asked.timestamp
    if timestamp == LATEST:
        if lags:
            raise _not_available(partition)
        epoch = leader.epoch if leader is not None else log.last_epoch
        return Found(-1, end, epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(-1, log.log_start_offset, _earliest_epoch(log))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    found = (
        log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    )
    if found is None or found[1] < 0 or found[1] >= end:
        if lags:
            raise _not_available(partition)
        return NOTHING
    return Found(found[0], found[1], log.epochs.epoch_of(found[1]))


def _earliest_epoch(log: PartitionLog) -> int:
    if log.log_start_offset == log.log_end_offset:
        return log.last_epoch
    return log.epochs.epoch_of(log.log_start_offset)


def _not_available(partition: Partition) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"the high watermark of {partition.name} has not reached its leader's epoch yet",
    )
