"""DescribeLogDirs.

Behaviour: returns this broker's log directories with the size of each replica in them. A directory
that failed, or whose volume does not tell its space, has KAFKA_STORAGE_ERROR. The lag of a replica
is its distance from the high watermark. The lag of a future replica, which is being moved to this
directory, is its distance from the current replica's end (-1 if that is gone).

Version notes: 3 has an error of its own, 4 the volume's space, 5 whether the directory is cordoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.wire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    OfflineLogDir,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import DescribeLogDirsRole

API = Api(
    ApiKey.DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    top_level_error(DescribeLogDirsResponse),
    "cluster",
    "describe",
)


def handle(
    request: DescribeLogDirsRequest, ctx: RequestContext, broker: DescribeLogDirsRole
) -> DescribeLogDirsResponse:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index)
            for topic in request.topics
            for index in topic.partitions
        }
    return DescribeLogDirsResponse(
        results=[_describe(broker, directory, wanted) for directory in broker.logs.directories],
        offline_reasons=[
            OfflineLogDir(log_dir=directory.path, reason=directory.offline_reason)
            for directory in broker.logs.directories
            if not directory.is_online
        ],
    )


def _describe(
    broker: DescribeLogDirsRole, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    if not directory.is_online:
        return failed
    try:
        total, usable = broker.ports.disk.free_bytes(directory.path)
    except OSError:  # it failed, and no request has written or read there since
        return failed

    def described(name: TopicPartition, log: PartitionLog) -> DescribeLogDirsPartition:
        is_future = name in directory.futures
        return DescribeLogDirsPartition(
            partition_index=name.partition,
            partition_size=log.size,
            offset_lag=_future_lag(broker, name, log)
            if is_future
            else max(log.high_watermark - log.log_end_offset, 0),
            is_future_key=is_future,
        )

    topics = by_topic(
        (name.topic, described(name, log))
        for name, log in sorted(directory.all_logs.items())
        if wanted is None or name in wanted
    )
    known = broker.image.brokers.get(broker.node_id)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=known is not None and directory.directory_id in known.cordoned,
    )


def _future_lag(broker: DescribeLogDirsRole, name: TopicPartition, log: PartitionLog) -> int:
    current = broker.logs.logs.get(name)
    return -1 if current is None else current.log_end_offset - log.log_end_offset
