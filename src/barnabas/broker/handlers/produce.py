"""Produce.

Behaviour: one batch per partition is appended by its leader; acks=1 answers at once (where
``flush.messages`` asks for a sync, behind that), acks=-1 when the high watermark has passed it, acks=0
never. Errors are per partition; the others go through. Internal topics are closed to clients.
Before the first batch of a transaction in a partition its coordinator is asked whether the partition belongs
to it, and the requests behind this one on its connection wait (`barnabas.broker.transaction.first_writes`).
NOT_ENOUGH_REPLICAS where the ISR is below min.insync.replicas before the append,
NOT_ENOUGH_REPLICAS_AFTER_APPEND where it fell below afterwards. A request for more than a hundred
partitions is followed a part per turn of the loop, and the requests behind it on its connection wait.

Version notes: 7 knows zstd (KIP-110), 8 names bad records, 10 the new leader (KIP-951), 11
TRANSACTION_ABORTABLE; from 12 on a batch adds its partition to the transaction (KIP-890), 13 has topics by
id instead of by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.leader_hints import LEADERSHIP, add_produce_leaders
from barnabas.broker.partitions.delayed_produce import NO_LEADER, DelayedProduce
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.transaction.first_writes import Proof, Proofs, verify_produce
from barnabas.record.batch import TRANSACTIONAL
from barnabas.record.compression import Codec
from barnabas.record.validate import InvalidRecordsError
from barnabas.types import Records, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.produce_request import ProduceRequest, TopicProduceData
from barnabas.wire.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext, Working

if TYPE_CHECKING:
    from barnabas.broker.roles import ProduceRole

IDS_SINCE = 13
LEADERS_SINCE = 10
ATTRIBUTES_AT = 22
"""The byte of a batch that says whether it belongs to a transaction, and how it is compressed."""
CODEC = 7
ZSTD_SINCE = 7
ADMIN_CLIENT_ID = "__admin_client"
"""May write to internal topics (AdminUtils.ADMIN_CLIENT_ID)."""


def error_response(request: ProduceRequest, code: int, message: str) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index, error_code=code, base_offset=-1,
                        error_message=message or None,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )  # fmt: skip


API = Api(ApiKey.PRODUCE, ProduceRequest, error_response, "topic", "write")


def handle(
    request: ProduceRequest, ctx: RequestContext, broker: ProduceRole
) -> ProduceResponse | Parked | None:
    if request.acks not in (-1, 0, 1):
        return error_response(request, ErrorCode.INVALID_REQUIRED_ACKS, "")
    if request.transactional_id is None:
        return _append_request(request, ctx, broker, None)
    parked = Working()
    proofs = verify_produce(
        request,
        ctx.api_version,
        broker,
        lambda key, index: _find(broker, key, index, ctx),
        lambda given: _append_in_slices(request, ctx, broker, given, parked),
    )
    return parked if proofs is None else _append_request(request, ctx, broker, proofs)


def _append_request(
    request: ProduceRequest, ctx: RequestContext, broker: ProduceRole, proofs: Proofs | None
) -> ProduceResponse | Parked | None:
    """`proofs` is None where the request is of no transaction."""
    topics = request.topic_data
    most = broker.ports.bounds.handlers.appended_inline_max
    if sum([len(topic.partition_data) for topic in topics]) > most:
        parked = Working()
        _append_in_slices(request, ctx, broker, proofs, parked)
        return parked
    response = ProduceResponse(responses=[])
    waiting, refused = _append_all(topics, request.acks, ctx, broker, response, None, proofs)
    return _outcome(request, ctx, broker, response, waiting, refused)


def _append_in_slices(
    request: ProduceRequest,
    ctx: RequestContext,
    broker: ProduceRole,
    proofs: Proofs | None,
    parked: Working,
) -> None:
    """A thousand appends take 30 ms: others are served in between, but for this connection's next
    requests, whose batches would overtake these."""

    def steps() -> Iterator[None]:
        response = ProduceResponse(responses=[])
        waiting, refused = None, False
        for topics in _parts(request.topic_data, broker.ports.bounds.handlers.appended_per_slice):
            waiting, some = _append_all(
                topics, request.acks, ctx, broker, response, waiting, proofs
            )
            if waiting is not None:
                waiting.parked = parked
            refused = refused or some
            yield
        response.responses = _joined(response.responses)
        outcome = _outcome(request, ctx, broker, response, waiting, refused)
        if not isinstance(outcome, Parked):
            parked.complete(outcome)
        parked.release()

    broker.slices.run(steps(), parked.fail, parked)


def _parts(topics: Iterable[TopicProduceData], most: int) -> Iterator[list[TopicProduceData]]:
    """The same, `most` partitions at a time."""
    for topic in topics:
        partitions = list(topic.partition_data)
        for at in range(0, len(partitions), most):
            yield [
                TopicProduceData(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_data=partitions[at : at + most],
                )
            ]


def _joined(responses: Iterable[TopicProduceResponse]) -> list[TopicProduceResponse]:
    """One for each topic, of those that came of its parts."""
    joined: dict[object, TopicProduceResponse] = {}
    for part in responses:
        whole = joined.setdefault((part.name, part.topic_id), part)
        if whole is not part:
            whole.partition_responses = [*whole.partition_responses, *part.partition_responses]
    return list(joined.values())


def _append_all(
    topics: Iterable[TopicProduceData],
    acks: int,
    ctx: RequestContext,
    broker: ProduceRole,
    response: ProduceResponse,
    waiting: DelayedProduce | None,
    proofs: Proofs | None,
) -> tuple[DelayedProduce | None, bool]:
    """Append, and add to `response` and to what is `waiting`: (what waits now, whether some partition is led
    by another broker)."""
    refused = False
    for topic in topics:
        answers: list[PartitionProduceResponse] = []
        response.responses.append(  # type: ignore[attr-defined]
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
        key = topic.topic_id if ctx.api_version >= IDS_SINCE else topic.name
        for data in topic.partition_data:
            try:
                partition = _find(broker, key, data.index, ctx)
                proof = None if proofs is None else proofs.get((key, data.index))
                answer, reached = _append(
                    partition, data.records, acks, ctx.api_version, proof, proofs is not None
                )
                answer.index = data.index
            except KafkaError as error:
                answer = _refused(data.index, error)
                refused = refused or error.code in LEADERSHIP
            else:
                done = partition.high_watermark if acks == -1 else partition.flushed_end_offset
                if acks and done < reached:
                    if waiting is None:
                        waiting = DelayedProduce(
                            response,
                            broker.deadlines,
                            partial(broker.finish_produce, ctx.listener)
                            if ctx.api_version >= LEADERS_SINCE
                            else None,
                        )
                    waiting.add(partition, reached, answer, acks)
            answers.append(answer)
    return waiting, refused


def _outcome(
    request: ProduceRequest,
    ctx: RequestContext,
    broker: ProduceRole,
    response: ProduceResponse,
    waiting: DelayedProduce | None,
    refused: bool,
) -> ProduceResponse | Parked | None:
    """When all is appended: the answer, or what waits for it. Raises KafkaError where there can be none."""
    if request.acks == 0:
        _check_unanswered(response.responses)
        return None
    if waiting is not None and waiting.remaining:
        deadline_ms = broker.ports.clock.now_ms() + max(request.timeout_ms, 0)
        return waiting.start(deadline_ms, failed=refused)
    # All that waited may have been settled, by another leadership, while the rest was appended.
    refused = refused or (waiting is not None and waiting.failed)
    if refused and ctx.api_version >= LEADERS_SINCE:
        add_produce_leaders(broker, response, ctx.listener)
    return response


def _find(broker: ProduceRole, key: str | Uuid, index: int, ctx: RequestContext) -> Partition:
    partition, code = broker.replicas.find((key, index))
    if partition is None:
        raise KafkaError(code, f"no replica of partition {index} here")
    if partition.topic in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {partition.topic}"
        )
    return partition


def _append(
    partition: Partition,
    records: Records | None,
    acks: int,
    version: int,
    proof: Proof,
    has_transactional_id: bool,
) -> tuple[PartitionProduceResponse, int]:
    """(the answer, the offset that the high watermark has to reach)."""
    if not records or isinstance(records, list):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without records")
    attributes = records[ATTRIBUTES_AT] if len(records) > ATTRIBUTES_AT else 0
    if version < ZSTD_SINCE and attributes & CODEC == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"version {version} does not know zstd"
        )
    if attributes & TRANSACTIONAL and not has_transactional_id:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a batch of a transaction, and no transactional id",
        )
    if isinstance(proof, KafkaError):
        raise proof
    info = partition.append(records, acks_all=acks == -1, verification=proof)
    log = partition.log
    answer = PartitionProduceResponse(
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time,
        log_start_offset=-1 if log is None else log.log_start_offset,
        current_leader=NO_LEADER,
    )
    return answer, info.last_offset + 1


def _refused(index: int, error: KafkaError) -> PartitionProduceResponse:
    records: tuple[BatchIndexAndErrorMessage, ...] = ()
    if isinstance(error, InvalidRecordsError):
        records = tuple(
            BatchIndexAndErrorMessage(
                batch_index=bad.batch_index, batch_index_error_message=bad.message
            )
            for bad in error.records
        )
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=records,
        error_message=error.message or None,
        current_leader=NO_LEADER,
    )


def _check_unanswered(responses: Iterable[TopicProduceResponse]) -> None:
    """acks=0 has no answer; an error ends the connection, so that the client asks for metadata."""
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise KafkaError(
                    ErrorCode(answer.error_code),
                    f"{topic.name}-{answer.index}: {answer.error_message}",
                )
