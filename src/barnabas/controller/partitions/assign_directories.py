"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.broker_epochs import check_epoch
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.controller.slicing import Steps, in_slices
from barnabas.metadata.features import DIRECTORIES_SINCE
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.image.topic import Topic
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.types import DIRECTORY_LOST, Uuid, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
)
from barnabas.wire.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)


def assign_replicas(
    cluster: ControllerContext,
    request: AssignReplicasToDirsRequest,
    note: Callable[[str, str, str], None],
) -> Decision[AssignReplicasToDirsResponse]:
    """Decide the reported directories; each partition has its own error.

    A replica in a directory that is not registered is offline: it leaves ISR and leadership. A replica that
    was in such a directory and is now in another one was created empty: it leaves ISR and ELR. The response
    has no error messages: `note` is called with (subject, code, reason) for each refusal. Raises
    UNSUPPORTED_VERSION, STALE_BROKER_EPOCH."""
    if cluster.image.metadata_version < DIRECTORIES_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet."
        )
    check_epoch(cluster, request.broker_id, request.broker_epoch)
    answers: list[DirectoryData] = []
    names = [
        (topic.topic_id, data.partition_index)
        for directory in request.directories
        for topic in directory.topics
        for data in topic.partitions
    ]
    steps = _steps(cluster, request, answers, note)
    return in_slices(
        cluster.bounds, names, steps, lambda: AssignReplicasToDirsResponse(directories=answers)
    )


def _steps(
    cluster: ControllerContext,
    request: AssignReplicasToDirsRequest,
    answers: list[DirectoryData],
    note: Callable[[str, str, str], None],
) -> Steps:
    for directory in request.directories:
        topics: list[TopicData] = []
        answers.append(DirectoryData(id=directory.id, topics=topics))
        for wanted in directory.topics:
            partitions: list[PartitionData] = []
            topics.append(TopicData(topic_id=wanted.topic_id, partitions=partitions))
            for data in wanted.partitions:
                broker = check_epoch(cluster, request.broker_id, request.broker_epoch)
                topic = cluster.image.topics_by_id.get(Uuid(wanted.topic_id))
                record = None
                index = data.partition_index
                code = _problem(cluster, broker, topic, index, Uuid(directory.id))
                if code != ErrorCode.NONE:
                    name = uuid_text(wanted.topic_id) if topic is None else topic.name
                    note(f"{name}-{index}", code.name, _why(code, broker.id))
                elif topic is not None:
                    record = _move(cluster, broker, topic, index, Uuid(directory.id))
                partitions.append(PartitionData(partition_index=index, error_code=code))
                yield record


def _problem(
    cluster: ControllerContext,
    broker: BrokerRegistration,
    topic: Topic | None,
    index: int,
    to: Uuid,
) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not topic.has(index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in topic.replicas[index]:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not cluster.elr_enabled and topic.isr[index] == (broker.id,):
        if _is_recreated(broker, topic, index, to) and not _may_be_empty(cluster, topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _why(code: ErrorCode, broker: int) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        return f"Broker {broker} names a directory for a topic that does not exist."
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"Broker {broker} names a directory for a partition that does not exist."
    if code == ErrorCode.KAFKA_STORAGE_ERROR:
        return f"Broker {broker} alone was in sync, and the directory in which it was is gone."
    return f"Broker {broker} names a directory for a partition of which it has no replica."


def _is_recreated(broker: BrokerRegistration, topic: Topic, index: int, to: Uuid) -> bool:
    """Whether the replica's log was created again, empty: its former directory is gone, and no log can be
    moved out of a missing directory. A replica in DIRECTORY_LOST is another case: its broker found the log
    again, or no other replica relied on it."""
    former = topic.directories[index][topic.replicas[index].index(broker.id)]
    gone = former != DIRECTORY_LOST and not broker.has_directory(former)
    return gone and broker.has_directory(to)


def _may_be_empty(cluster: ControllerContext, topic: Topic, index: int) -> bool:
    """Whether the last member of an ISR may have an empty log. Without ELR it stays in the ISR, would be
    elected cleanly, and its followers would truncate their logs to nothing. That is allowed only if unclean
    election is enabled and no other replica is live."""
    live = map(cluster.may_lead, topic.replicas[index], topic.directories[index])
    return cluster.rules(topic).unclean and not any(live)


def _move(
    cluster: ControllerContext,
    broker: BrokerRegistration,
    topic: Topic,
    index: int,
    directory: Uuid,
) -> PartitionChangeRecord | None:
    reason = f"broker {broker.id} holds the replica in directory {uuid_text(directory)}"
    change = PartitionChangeBuilder(cluster, topic, index, reason)
    change.directories[broker.id] = directory
    former = topic.directories[index][topic.replicas[index].index(broker.id)]
    if not broker.has_directory(directory):
        change.reason = f"{reason}, which is offline"
        if directory == DIRECTORY_LOST:
            change.reason = f"broker {broker.id} cannot read the directory where the replica may be"
        change.without((broker.id,))
    elif _is_recreated(broker, topic, index, directory):
        change.reason = f"{reason}, and {uuid_text(former)}, where it was, is gone"
        change.without((broker.id,))
        change.unclean_shutdown = (broker.id,)
    return change.build()
