"""ListOffsets.

Behaviour: the offset of the first record at or after a timestamp, or one of the special ones: latest
(-1: the high watermark, the last stable offset with read_committed, the log's end for followers and
for tools that debug a replica), earliest (-2), the record with the largest timestamp (-3), earliest
local (-4, the same as earliest without a remote tier), latest tiered (-5) and earliest pending upload
(-6): none. Searches by timestamp read the disk on another thread. OFFSET_NOT_AVAILABLE while the high
watermark of a new leader lags behind its epoch.

Version notes: 2 isolation, 4 leader epochs, 5 knows OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before),
7 the largest timestamp, 8 earliest local, 9 latest tiered, 11 earliest pending upload.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.partitions.partition import Partition
from barnabas.broker.replicas.timestamp_search import Search, run_searches
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.partition.timestamp_lookup import Stamped
from barnabas.types import DEBUGGING_REPLICA
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from barnabas.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import ListOffsetsRole

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_SINCE = {
    LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip
NEVER = 1 << 15
"""The version that serves any other negative timestamp: none does."""
CONSUMER = -1
READ_COMMITTED = 1


class Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class WantedOffset(NamedTuple):
    """A search by timestamp, and the state that its answer depends on."""

    timestamp: int | None
    """None: the largest one."""
    partition: Partition
    consumer: bool
    isolation: int

    def found(self, stamped: Stamped | None) -> Found:
        """The answer to the search, by the present watermarks. Raises KafkaError."""
        log = self.partition.online_log()
        end = _visible_end(log, self.isolation) if self.consumer else log.log_end_offset
        if stamped is not None and stamped.offset < end:
            return Found(*stamped, log.epochs.epoch_of(stamped.offset))
        if self.consumer and _lags(self.partition, log):
            raise _not_available(self.partition)
        return NOTHING


NOTHING = Found(-1, -1, -1)


API = Api(
    ApiKey.LIST_OFFSETS,
    ListOffsetsRequest,
    mirrored_error(ListOffsetsRequest, ListOffsetsResponse),
    "topic",
    "describe",
)


def handle(
    request: ListOffsetsRequest, ctx: RequestContext, broker: ListOffsetsRole
) -> ListOffsetsResponse | Parked:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    searches: list[Search] = []
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for asked in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            answers.append(answer)
            try:
                if (topic.name, asked.partition_index) in twice:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition is listed twice")
                found = _find(broker, request, ctx.api_version, topic.name, asked)
                if isinstance(found, WantedOffset):
                    settle = partial(_fill_in, answer, ctx.api_version, found)
                    searches.append(Search(found.partition, found.timestamp, settle))
                else:
                    _write(answer, ctx.api_version, found)
            except KafkaError as error:
                _refuse(answer, ctx.api_version, error)
    response = ListOffsetsResponse(topics=topics)
    return run_searches(broker.ports, searches, response) if searches else response


def _fill_in(
    answer: ListOffsetsPartitionResponse,
    version: int,
    wanted: WantedOffset,
    result: Stamped | KafkaError | None,
) -> None:
    """Put the result of a search into the answer."""
    try:
        if isinstance(result, KafkaError):
            raise result
        _write(answer, version, wanted.found(result))
    except KafkaError as error:
        _refuse(answer, version, error)


def _write(answer: ListOffsetsPartitionResponse, version: int, found: Found) -> None:
    answer.timestamp = found.timestamp
    answer.offset = found.offset
    answer.leader_epoch = found.leader_epoch if version >= 4 else -1


def _refuse(answer: ListOffsetsPartitionResponse, version: int, error: KafkaError) -> None:
    code = ErrorCode(error.code)
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    answer.error_code = code


def _find(
    broker: ListOffsetsRole,
    request: ListOffsetsRequest,
    version: int,
    topic: str,
    asked: ListOffsetsPartition,
) -> Found | WantedOffset:
    """The answer from memory, or the search of the disk that has to be made. Raises KafkaError."""
    timestamp = asked.timestamp
    if timestamp < 0 and version < SPECIAL_SINCE.get(timestamp, NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the timestamp is of a later version")
    partition, code = broker.replicas.find((topic, asked.partition_index))
    if partition is None:
        raise KafkaError(code, "no replica here")
    debugging = request.replica_id == DEBUGGING_REPLICA
    log = partition.readable_log(asked.current_leader_epoch, leader_only=not debugging)
    consumer, isolation = request.replica_id == CONSUMER, request.isolation_level
    if timestamp == LATEST:
        if consumer and _lags(partition, log):
            raise _not_available(partition)
        leader = partition.leader
        end = _visible_end(log, isolation) if consumer else log.log_end_offset
        return Found(-1, end, leader.epoch if leader is not None else log.last_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(-1, log.log_start_offset, _earliest_epoch(log))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    wanted = None if timestamp == MAX_TIMESTAMP else timestamp
    return WantedOffset(wanted, partition, consumer, isolation)


def _visible_end(log: PartitionLog, isolation: int) -> int:
    return log.last_stable_offset if isolation == READ_COMMITTED else log.high_watermark


def _lags(partition: Partition, log: PartitionLog) -> bool:
    """Whether the high watermark has not reached this leader's epoch yet: until then the true one
    is unknown."""
    leader = partition.leader
    return leader is not None and leader.epoch_start_offset > log.high_watermark


def _earliest_epoch(log: PartitionLog) -> int:
    if log.log_start_offset == log.log_end_offset:
        return log.last_epoch
    return log.epochs.epoch_of(log.log_start_offset)


def _not_available(partition: Partition) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"the high watermark of {partition.name} has not reached its leader's epoch yet",
    )
