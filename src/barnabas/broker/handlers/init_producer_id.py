"""InitProducerId.

Behaviour: an idempotent producer gets an unused producer id with epoch 0 from this broker's block. A
transactional producer gets the producer id and the next epoch of its transactional id from its transaction
coordinator, which thereby fences the earlier producer. The coordinator aborts an open transaction first;
until that is done it answers CONCURRENT_TRANSACTIONS. KeepPreparedTxn is refused with UNSUPPORTED_VERSION, as
in Apache Kafka 4.3; Enable2Pc needs ``transaction.two.phase.commit.enable`` (KIP-939).

Version notes: from 3 on the request has the client's producer id and epoch (KIP-360), before 4 a fenced
producer receives INVALID_PRODUCER_EPOCH (KIP-588), 6 is for two-phase commit (KIP-939).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.outcome import TransactionOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError, fenced_code
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import ProducerIdRole

FENCED_SINCE = 4


error_response = top_level_error(InitProducerIdResponse, producer_epoch=-1)
API = Api(
    ApiKey.INIT_PRODUCER_ID,
    InitProducerIdRequest,
    error_response,
    "transactional-id",
    "write",
)


def handle(request: InitProducerIdRequest, ctx: RequestContext, broker: ProducerIdRole) -> Parked:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a producer id and a producer epoch come together"
        )
    if request.transactional_id is None:
        return _idempotent(request, broker)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.keep_prepared_txn:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "KeepPreparedTxn is not supported (KIP-939)"
        )
    return _transactional(request, ctx, broker)


def _idempotent(request: InitProducerIdRequest, broker: ProducerIdRole) -> Parked:
    parked = Parked()

    def on_id(given: int | KafkaError) -> None:
        if isinstance(given, KafkaError):
            parked.complete(error_response(request, given.code, given.message))
        else:
            parked.complete(InitProducerIdResponse(producer_id=given, producer_epoch=0))

    broker.producer_ids.allocate(on_id)
    return parked


def _transactional(
    request: InitProducerIdRequest, ctx: RequestContext, broker: ProducerIdRole
) -> Parked:
    parked = Parked()

    def init(machine: TransactionMachine, fresh_id: int | None, at: Instant) -> TransactionOutcome:
        return machine.init_producer_id(request, fresh_id, at)

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            code = fenced_code(result.code, ctx.api_version, FENCED_SINCE)
            parked.complete(error_response(request, code, result.message))
        else:
            parked.complete(result)

    assert request.transactional_id
    broker.transactions.coordinators.write_with_id(request.transactional_id, init, done)
    return parked
