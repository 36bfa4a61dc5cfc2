"""AddPartitionsToTxn.

Behaviour: partitions join the transaction of a producer, or begin it; all partitions of one
transaction join, or none. If one of them does not exist, it gets UNKNOWN_TOPIC_OR_PARTITION and the
others OPERATION_NOT_ATTEMPTED. While the markers of the last transaction are being written, the
answer waits for them, for ``add.partitions.to.txn.retry.backoff.max.ms`` at most; then it is
CONCURRENT_TRANSACTIONS.

Version notes: up to 3 clients send one transaction, before 2 a fenced producer gets INVALID_PRODUCER_EPOCH
(KIP-588). From 4 on brokers send many, and may only ask whether the partitions are in (VerifyOnly, KIP-890).
5 knows TRANSACTION_ABORTABLE, which brokers hide from older clients themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.outcome import TransactionOutcome
from barnabas.transaction.transaction import BUMPS_EPOCH_SINCE, Partitions
from barnabas.types import TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError, fenced_code
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import AddPartitionsRole

OnResult = Callable[[AddPartitionsToTxnResult], None]
FENCED_SINCE = 2
MANY_SINCE = 4


def error_response(
    request: AddPartitionsToTxnRequest, code: int, message: str
) -> AddPartitionsToTxnResponse:
    """The error in both forms of the response; encoding leaves out the form that a version
    lacks."""
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_topic_v3_and_below=_results(request.v3_and_below_topics, {}, code),
    )


API = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    error_response,
    "transactional-id",
    "write",
)


def handle(
    request: AddPartitionsToTxnRequest, ctx: RequestContext, broker: AddPartitionsRole
) -> Parked:
    if ctx.api_version < MANY_SINCE:
        return _one(request, ctx, broker)
    parked = Parked()
    wanted = request.transactions
    results: list[AddPartitionsToTxnResult | None] = [None] * len(wanted)
    remaining = len(wanted)

    def done(position: int, result: AddPartitionsToTxnResult) -> None:
        nonlocal remaining
        results[position] = result
        remaining -= 1
        if not remaining:
            found = [one for one in results if one is not None]
            parked.complete(AddPartitionsToTxnResponse(results_by_transaction=found))

    if not wanted:
        parked.complete(AddPartitionsToTxnResponse())
    for position, transaction in enumerate(wanted):
        _decide(broker, transaction, BUMPS_EPOCH_SINCE, partial(done, position))
    return parked


def _one(
    request: AddPartitionsToTxnRequest, ctx: RequestContext, broker: AddPartitionsRole
) -> Parked:
    parked = Parked()
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )

    def done(result: AddPartitionsToTxnResult) -> None:
        for topic in result.topic_results:
            for found in topic.results_by_partition:
                code = found.partition_error_code
                found.partition_error_code = fenced_code(code, ctx.api_version, FENCED_SINCE)
        parked.complete(
            AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
        )

    _decide(broker, transaction, 0, done)
    return parked


def _decide(
    broker: AddPartitionsRole,
    wanted: AddPartitionsToTxnTransaction,
    client_version: int,
    done: OnResult,
) -> None:
    """Add or verify the partitions of one transaction."""
    places: Partitions = {
        TopicPartition(topic.name, index): None
        for topic in wanted.topics
        for index in topic.partitions
    }

    def refuse(code: int, own: dict[TopicPartition, ErrorCode] | None = None) -> None:
        done(
            AddPartitionsToTxnResult(
                transactional_id=wanted.transactional_id,
                topic_results=_results(wanted.topics, own or {}, code),
            )
        )

    if not wanted.transactional_id:
        refuse(ErrorCode.INVALID_REQUEST)
        return
    unknown = _unknown(broker, places)
    if unknown:
        refuse(ErrorCode.OPERATION_NOT_ATTEMPTED, unknown)
        return

    def operation(machine: TransactionMachine, at: Instant) -> TransactionOutcome:
        who = (wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
        if wanted.verify_only:
            return machine.verify_partitions(*who, places)
        return machine.add_partitions(*who, places, client_version, at)

    def decided(result: Message | KafkaError | None) -> None:
        if isinstance(result, AddPartitionsToTxnResult):
            done(result)
        else:
            refuse(result.code if isinstance(result, KafkaError) else ErrorCode.NONE)

    coordinators = broker.transactions.coordinators
    write = coordinators.write if wanted.verify_only else coordinators.write_behind_end
    write(wanted.transactional_id, operation, decided)


def _unknown(
    broker: AddPartitionsRole, places: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    known = broker.image.topics_by_name
    return {
        place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for place in places
        if place.topic not in known or not known[place.topic].has(place.partition)
    }


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], own: dict[TopicPartition, ErrorCode], code: int
) -> list[AddPartitionsToTxnTopicResult]:
    """The results of all partitions: their `own` code, else `code`."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=own.get(TopicPartition(topic.name, index), code),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
