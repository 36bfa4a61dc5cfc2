"""OffsetCommit.

Behaviour: offsets of existing partitions are written to ``__consumer_offsets`` and answered when
committed. A group with members takes them from members of its present generation only. Partitions
that do not exist get their error, the others are committed.

Version notes: 2 to 4 may carry a time of retention of their own; 6 a leader epoch (KIP-320); 7 an
instance id (KIP-345); from 9 on a missing group is GROUP_ID_NOT_FOUND (KIP-848); from 10 on topics
go by id.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, caller_of, write_group
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.metadata.image.image import MetadataImage
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

TOPIC_ID_VERSION = 10


error_response = mirrored_error(OffsetCommitRequest, OffsetCommitResponse)
API = Api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, error_response, "group", "read")


def handle(
    request: OffsetCommitRequest, ctx: RequestContext, role: GroupRole
) -> OffsetCommitResponse | Parked:
    by_id = ctx.api_version >= TOPIC_ID_VERSION
    refused_topics: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        _sort_out(role.image, topic, by_id, accepted, refused_topics)
    if not accepted:
        return OffsetCommitResponse(topics=refused_topics)
    wanted = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=accepted,
    )
    caller = caller_of(ctx, role)

    def commit(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.commit_offsets(wanted, caller, at)

    def refused(error: KafkaError) -> Message:
        return merge(error_response(wanted, error.code, error.message))

    def merge(response: Message) -> Message:
        assert isinstance(response, OffsetCommitResponse)
        response.topics = merged(refused_topics, response.topics)
        return response

    return write_group(role, request.group_id, commit, refused, merge)


def merged(
    first: Sequence[OffsetCommitResponseTopic], second: Sequence[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Join both lists, so that each topic occurs once."""
    topics: dict[tuple[str, Uuid], list[OffsetCommitResponsePartition]] = {}
    for topic in (*first, *second):
        topics.setdefault((topic.name, topic.topic_id), []).extend(topic.partitions)
    return [
        OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]


def _sort_out(
    image: MetadataImage,
    topic: OffsetCommitRequestTopic,
    by_id: bool,
    accepted: list[OffsetCommitRequestTopic],
    refused_topics: list[OffsetCommitResponseTopic],
) -> None:
    """Find the topic by name or id, and separate partitions that exist from those that do not."""
    known = (
        image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
    )
    if known is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused_topics.append(_refused(topic, topic.partitions, code))
        return
    topic.name, topic.topic_id = known.name, known.id
    good = [part for part in topic.partitions if known.has(part.partition_index)]
    if len(good) < len(topic.partitions):
        missing = [part for part in topic.partitions if not known.has(part.partition_index)]
        refused_topics.append(_refused(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if good:
        accepted.append(
            OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=good)
        )


def _refused(
    topic: OffsetCommitRequestTopic,
    partitions: Sequence[OffsetCommitRequestPartition],
    code: int,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id or ZERO_UUID,
        partitions=[
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in partitions
        ],
    )
