"""AddOffsetsToTxn.

Behaviour: the partition of ``__consumer_offsets`` that holds a group's offsets joins a producer's
transaction, as any partition does; the offsets themselves go to the group's coordinator (TxnOffsetCommit).

Version notes: before 2 a fenced producer gets INVALID_PRODUCER_EPOCH (KIP-588). Clients of
``transaction.version`` 2 do not send it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.outcome import TransactionOutcome
from barnabas.types import OFFSETS_TOPIC, TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError, fenced_code
from barnabas.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import AddOffsetsRole

FENCED_SINCE = 2
API = Api(
    ApiKey.ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    top_level_error(AddOffsetsToTxnResponse),
    "transactional-id",
    "write",
)


def handle(request: AddOffsetsToTxnRequest, ctx: RequestContext, broker: AddOffsetsRole) -> Parked:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no transactional id")
    parked = Parked()
    place = TopicPartition(
        OFFSETS_TOPIC, broker.hashed.partition_for(OFFSETS_TOPIC, request.group_id)
    )

    def add(machine: TransactionMachine, at: Instant) -> TransactionOutcome:
        return machine.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch,
            {place: None}, 0, at,
        )  # fmt: skip

    def done(result: Message | KafkaError | None) -> None:
        code = result.code if isinstance(result, KafkaError) else ErrorCode.NONE
        told = fenced_code(code, ctx.api_version, FENCED_SINCE)
        parked.complete(AddOffsetsToTxnResponse(error_code=told))

    broker.transactions.coordinators.write_behind_end(request.transactional_id, add, done)
    return parked
