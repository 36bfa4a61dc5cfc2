"""DescribeTransactions.

Behaviour: returns state, producer, time-out and partitions of transactional ids that this broker
coordinates, each with its own error (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
TRANSACTIONAL_ID_NOT_FOUND). KIP-664.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.transaction.queries import describe_transaction
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.wire.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasTransactions


API = Api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    mirrored_error(DescribeTransactionsRequest, DescribeTransactionsResponse),
    "transactional-id",
    "describe",
)


def handle(
    request: DescribeTransactionsRequest, ctx: RequestContext, broker: HasTransactions
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(broker, name) for name in request.transactional_ids]
    )


def _describe(broker: HasTransactions, transactional_id: str) -> TransactionState:
    code = ErrorCode.INVALID_REQUEST
    if transactional_id:
        query = partial(describe_transaction, transactional_id=transactional_id)
        try:
            return broker.transactions.coordinators.read(transactional_id, query)
        except KafkaError as error:
            code = error.code
    return TransactionState(transactional_id=transactional_id, error_code=code)
