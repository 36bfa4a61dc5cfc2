"""TxnOffsetCommit.

Behaviour: writes offsets of existing partitions to ``__consumer_offsets`` as part of a producer's
transaction. Readers see them once the commit marker is written, and never if the transaction is aborted. The
group coordinator asks the transaction coordinator first whether its partition of ``__consumer_offsets``
belongs to the transaction. A member of an earlier generation, and one that the group does not know, is
refused (KIP-447).

Version notes: 2 has leader epochs, 3 has member, instance and generation (KIP-447), from 4 on the producer
knows TRANSACTION_ABORTABLE, from 5 on the request adds the partition to the transaction (KIP-890). From 6 on
topics go by id, and a member hears GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319). Before 2 the answer
has COORDINATOR_NOT_AVAILABLE in place of COORDINATOR_LOAD_IN_PROGRESS, which is fatal to producers of that
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinator_shard import answer_of
from barnabas.broker.transaction.first_writes import (
    Proceed,
    Proof,
    WriteQuestion,
    begin_group_verification,
)
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.metadata.image.image import MetadataImage
from barnabas.operation import Instant
from barnabas.types import OFFSETS_TOPIC, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import TransactionalOffsetsRole

LOADING_SINCE = 2
ABORTABLE_SINCE = 4
ADDS_SINCE = 5
TOPIC_ID_VERSION = 6


error_response = mirrored_error(TxnOffsetCommitRequest, TxnOffsetCommitResponse)
API = Api(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, error_response, "group", "read")


def handle(
    request: TxnOffsetCommitRequest, ctx: RequestContext, broker: TransactionalOffsetsRole
) -> TxnOffsetCommitResponse | Parked:
    if not request.group_id:
        return error_response(request, ErrorCode.INVALID_GROUP_ID, "")
    by_id = ctx.api_version >= TOPIC_ID_VERSION
    accepted, refused = _split_existing(broker.image, request.topics, by_id=by_id)
    if not accepted:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = accepted
    parked = Parked()

    def answer(response: TxnOffsetCommitResponse) -> None:
        response.topics = _merged(refused, response.topics)
        parked.complete(response)

    def refuse(error: KafkaError) -> None:
        code = ErrorCode(answer_of(error).code)
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.api_version < LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer(error_response(request, code, error.message))

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            refuse(result)
        else:
            assert isinstance(result, TxnOffsetCommitResponse)
            answer(result)

    def commit(proof: Proof) -> None:
        if isinstance(proof, KafkaError):
            refuse(proof)
            return
        producer = TransactionalWriter(request.producer_id, request.producer_epoch, proof)

        def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
            return machine.commit_transactional_offsets(request, producer, ctx.api_version, at)

        broker.groups.write(request.group_id, decide, done)

    try:
        _verify_then(broker, request, ctx.api_version, commit)
    except KafkaError as error:
        refuse(error)
    return parked


def _verify_then(
    broker: TransactionalOffsetsRole, request: TxnOffsetCommitRequest, version: int, commit: Proceed
) -> None:
    """Verify the write with the transaction coordinator if that is needed, then `commit`. Raises KafkaError
    if this broker has no replica of the group's partition, or does not lead it."""
    index = broker.groups.partition_for(request.group_id)
    partition, code = broker.replicas.find((OFFSETS_TOPIC, index))
    if partition is None:
        raise KafkaError(code, f"no replica of {OFFSETS_TOPIC}-{index} here")
    question = WriteQuestion(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds=version >= ADDS_SINCE,
        knows_abortable=version >= ABORTABLE_SINCE,
    )
    begin_group_verification(broker, question, partition, commit)


def _split_existing(
    image: MetadataImage, topics: Sequence[TxnOffsetCommitRequestTopic], *, by_id: bool
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """Separate partitions that exist, with the names and ids of their topics, from answers for
    those that do not."""
    accepted: list[TxnOffsetCommitRequestTopic] = []
    refused: list[TxnOffsetCommitResponseTopic] = []
    for topic in topics:
        known = (
            image.topics_by_id.get(topic.topic_id)
            if by_id
            else image.topics_by_name.get(topic.name)
        )
        if known is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_refused(topic, topic.partitions, code))
            continue
        topic.name, topic.topic_id = known.name, known.id
        good = [part for part in topic.partitions if known.has(part.partition_index)]
        missing = [part for part in topic.partitions if not known.has(part.partition_index)]
        if missing:
            refused.append(_refused(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if good:
            accepted.append(
                TxnOffsetCommitRequestTopic(name=known.name, topic_id=known.id, partitions=good)
            )
    return accepted, refused


def _refused(
    topic: TxnOffsetCommitRequestTopic,
    partitions: Sequence[TxnOffsetCommitRequestPartition],
    code: int,
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in partitions
        ],
    )


def _merged(
    first: Sequence[TxnOffsetCommitResponseTopic], second: Sequence[TxnOffsetCommitResponseTopic]
) -> list[TxnOffsetCommitResponseTopic]:
    """Join both lists, so that each topic occurs once."""
    topics: dict[tuple[str, Uuid], list[TxnOffsetCommitResponsePartition]] = {}
    for topic in (*first, *second):
        topics.setdefault((topic.name, topic.topic_id), []).extend(topic.partitions)
    return [
        TxnOffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]
