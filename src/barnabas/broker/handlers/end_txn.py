"""EndTxn.

Behaviour: the coordinator decides commit or abort of a producer's transaction, and answers when the
decision is committed to ``__transaction_state``. The markers follow. If the producer begins its
next transaction before they are written, it gets CONCURRENT_TRANSACTIONS.

Version notes: before 2 a fenced producer gets INVALID_PRODUCER_EPOCH (KIP-588). From 5 on the
client uses ``transaction.version`` 2: the answer has the producer's next epoch, and its next id if
no epoch was left (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.transaction.ending import Ending
from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.outcome import TransactionOutcome
from barnabas.transaction.transaction import BUMPS_EPOCH_SINCE
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError, fenced_code
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.end_txn_response import EndTxnResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import HasTransactions

FENCED_SINCE = 2
BUMPS_SINCE = 5
API = Api(
    ApiKey.END_TXN, EndTxnRequest, top_level_error(EndTxnResponse), "transactional-id", "write"
)


def handle(request: EndTxnRequest, ctx: RequestContext, broker: HasTransactions) -> Parked:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no transactional id")
    parked = Parked()
    version = BUMPS_EPOCH_SINCE if ctx.api_version >= BUMPS_SINCE else 0

    def end(machine: TransactionMachine, fresh_id: int | None, at: Instant) -> TransactionOutcome:
        wish = Ending(
            request.producer_id, request.producer_epoch, request.committed, version, fresh_id
        )
        return machine.end_transaction(request.transactional_id, wish, at)

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            code = fenced_code(result.code, ctx.api_version, FENCED_SINCE)
            parked.complete(EndTxnResponse(error_code=code))
        else:
            parked.complete(result)

    broker.transactions.coordinators.write_with_id(request.transactional_id, end, done)
    return parked
