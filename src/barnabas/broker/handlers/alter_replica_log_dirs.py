"""AlterReplicaLogDirs.

Behaviour: begins to move replicas of this broker to the directories named, and answers at once;
DescribeLogDirs shows the progress of the copies. A replica that is there already stays, and a move
elsewhere is cancelled. If this broker does not have the replica yet, the directory is remembered
until it does; the answer is REPLICA_NOT_AVAILABLE, or UNKNOWN_TOPIC_OR_PARTITION if the cluster has
no such partition yet. LOG_DIR_NOT_FOUND: ``log.dirs`` has no such directory; KAFKA_STORAGE_ERROR:
it is offline, the replica is, or another directory is that may hold an older copy;
INVALID_TOPIC_EXCEPTION: the copy's name would be too long (KIP-113, KAFKA-4893);
INVALID_REPLICA_ASSIGNMENT: the directory is cordoned (KIP-1066).

Version notes: 2 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.meta_properties import normal_path
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from barnabas.wire.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import AlterLogDirsRole


def error_response(
    request: AlterReplicaLogDirsRequest, code: int, message: str
) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_wanted(request), code))


API = Api(
    ApiKey.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest, error_response, "cluster", "alter"
)


def handle(
    request: AlterReplicaLogDirsRequest, ctx: RequestContext, broker: AlterLogDirsRole
) -> AlterReplicaLogDirsResponse:
    codes = {}
    for name, path in _wanted(request).items():
        try:
            _move(broker, name, path)
            codes[name] = int(ErrorCode.NONE)
        except KafkaError as error:
            codes[name] = int(error.code)
            broker.ports.log(
                "warning",
                "log.move_refused",
                partition=str(name),
                to=path,
                error=error.code.name,
                reason=error.message,
            )
    return _response(codes)


def _move(broker: AlterLogDirsRole, name: TopicPartition, path: str) -> None:
    directory = next((d for d in broker.logs.directories if d.path == normal_path(path)), None)
    if directory is None:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
    if not directory.is_online:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
    if directory.directory_id in broker.lifecycle.cordoned:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
    topic = broker.image.topics_by_name.get(name.topic)
    try:
        broker.moves.move(name, directory)
    except KafkaError as error:
        is_known = topic is not None and topic.has(name.partition)
        if is_known or error.code != ErrorCode.REPLICA_NOT_AVAILABLE:
            raise
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error.message) from error


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """The wanted directory of each replica. If a replica is named twice, the last directory
    counts."""
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _response(codes: dict[TopicPartition, int]) -> AlterReplicaLogDirsResponse:
    topics = by_topic(
        (
            name.topic,
            AlterReplicaLogDirPartitionResult(partition_index=name.partition, error_code=code),
        )
        for name, code in codes.items()
    )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )
