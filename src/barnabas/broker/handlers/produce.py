"""Produce.

Behaviour: one batch per partition is appended by its leader; acks=1 answers at once (after a sync,
if ``flush.messages`` demands one), acks=-1 when the high watermark has passed the batch, acks=0
never. An error affects only its partition. Clients cannot write to internal topics. Before the
first batch of a transaction in a partition, the transaction's coordinator is asked whether the
partition belongs to it; later requests on the connection wait
(`barnabas.broker.transaction.first_writes`). NOT_ENOUGH_REPLICAS means that the ISR is below
min.insync.replicas before the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND that it fell below
afterwards. A request for more than a hundred partitions takes several turns of the loop, and later
requests on its connection wait.

Version notes: 7 knows zstd (KIP-110), 8 names bad records, 10 the new leader (KIP-951), 11
TRANSACTION_ABORTABLE; from 12 on a batch adds its partition to the transaction (KIP-890), 13 has topics by
id instead of by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.cooperative_jobs import CONTINUES, StepResult, take_all
from barnabas.broker.leader_hints import LEADERSHIP, add_produce_leaders
from barnabas.broker.partitions.delayed_produce import NO_LEADER, DelayedProduce
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.transaction.first_writes import Key, Proof, prove_writes
from barnabas.record.batch import TRANSACTIONAL
from barnabas.record.compression import Codec
from barnabas.record.validate import InvalidRecordsError
from barnabas.types import Records, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.produce_request import ProduceRequest
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
"""The client id that may write to internal topics (AdminUtils.ADMIN_CLIENT_ID)."""


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
        return _begin(request, ctx, broker, None)
    proofs: dict[Key, Proof] = {}
    parked = Working()
    steps = _append_all(request, ctx, broker, proofs, parked)
    proceed = partial(broker.slices.answer, steps, at_once=False, parked=parked)
    if prove_writes(request, ctx.api_version, broker, proofs, proceed):
        return _begin(request, ctx, broker, proofs)
    return parked


def _begin(
    request: ProduceRequest,
    ctx: RequestContext,
    broker: ProduceRole,
    proofs: Mapping[Key, Proof] | None,
) -> ProduceResponse | Parked | None:
    """Append a small request at once. A thousand appends take 30 ms, so a large one takes several
    turns. Other connections are served in between; later requests of this connection wait, or their
    batches would overtake these. `proofs` is None if the request has no transaction."""
    most = broker.ports.bounds.handlers.appended_inline_max
    if sum([len(topic.partition_data) for topic in request.topic_data]) <= most:
        return take_all(_append_all(request, ctx, broker, proofs, None))
    parked = Working()
    steps = _append_all(request, ctx, broker, proofs, parked)
    return broker.slices.answer(steps, at_once=False, parked=parked)


def _append_all(
    request: ProduceRequest,
    ctx: RequestContext,
    broker: ProduceRole,
    proofs: Mapping[Key, Proof] | None,
    parked: Working | None,
) -> Iterator[ProduceResponse | Parked | StepResult | None]:
    """Append to some partitions of a topic with each step. Returns the answer, or the `Parked` that
    gets it later. Raises KafkaError if there can be no answer."""
    acks, version = request.acks, ctx.api_version
    per_step = broker.ports.bounds.handlers.appended_per_slice
    responses: list[TopicProduceResponse] = []
    response = ProduceResponse(responses=responses)
    answers_of: dict[str | Uuid, list[PartitionProduceResponse]] = {}
    waiting: DelayedProduce | None = None
    refused = False  # whether another broker leads one of the partitions
    fault: KafkaError | None = None
    for topic in request.topic_data:
        key = topic.topic_id if version >= IDS_SINCE else topic.name
        answers = answers_of.get(key)
        if answers is None:  # a topic that is named twice has one answer, as in Kafka
            answers = answers_of[key] = []
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        for start in range(0, len(topic.partition_data), per_step):
            for data in topic.partition_data[start : start + per_step]:
                try:
                    partition = _find(broker, key, data.index, ctx)
                    proof = None if proofs is None else proofs.get((key, data.index))
                    answer, reached = _append(
                        partition, data.records, acks, version, proof, proofs is not None
                    )
                    answer.index = data.index
                except KafkaError as error:
                    answer = _refused(data.index, error)
                    refused = refused or error.code in LEADERSHIP
                    if acks == 0 and fault is None:
                        where = f"{topic.name}-{data.index}"
                        fault = KafkaError(error.code, f"{where}: {error.message or None}")
                else:
                    done = partition.high_watermark if acks == -1 else partition.flushed_end_offset
                    if acks and done < reached:
                        if waiting is None:
                            finish = partial(broker.finish_produce, ctx.listener)
                            waiting = DelayedProduce(
                                response,
                                broker.deadlines,
                                finish if version >= LEADERS_SINCE else None,
                                parked or Parked(),
                            )
                        waiting.add(partition, reached, answer, acks)
                answers.append(answer)
            yield CONTINUES
    if acks == 0:
        if fault is not None:
            raise fault  # it ends the connection: only that makes the client ask for metadata
        yield None
        return
    if waiting is not None and waiting.remaining:
        deadline_ms = broker.ports.clock.now_ms() + max(request.timeout_ms, 0)
        yield waiting.start(deadline_ms, failed=refused)
        return
    # A change of leadership may have settled all that waited while the rest was appended.
    refused = refused or (waiting is not None and waiting.failed)
    if refused and version >= LEADERS_SINCE:
        add_produce_leaders(broker, response, ctx.listener)
    yield response


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
    """Append to one partition. Returns the answer, and the offset that the high watermark has to
    reach."""
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
