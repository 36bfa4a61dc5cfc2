"""ListTransactions.

Behaviour: returns the transactional ids that this broker coordinates and that pass all filters:
states (unknown names are reported in a list of their own), producer ids, the time since the
transaction began, and a pattern that the whole transactional id matches. The answer is
COORDINATOR_LOAD_IN_PROGRESS until all records that this broker's coordinators have loaded are
committed. KIP-664.

Version notes: 1 filters by duration (KIP-994), 2 by pattern (KIP-1152).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.transaction.queries import Filters, known_states, list_transactions
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from barnabas.wire.messages.list_transactions_response import ListTransactionsResponse
from barnabas.wire.regular_expressions import NameExpression
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import ListTransactionsRole

API = Api(
    ApiKey.LIST_TRANSACTIONS,
    ListTransactionsRequest,
    top_level_error(ListTransactionsResponse),
    "transactional-id",
    "describe",
)


def handle(
    request: ListTransactionsRequest, ctx: RequestContext, broker: ListTransactionsRole
) -> ListTransactionsResponse:
    pattern = request.transactional_id_pattern
    states, unknown = known_states(request.state_filters)
    filters = Filters(
        states,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        NameExpression(pattern, "TransactionalIdPattern").matches if pattern else None,
    )
    query = partial(list_transactions, filters=filters, wall_ms=broker.ports.clock.wall_ms())
    found = broker.transactions.coordinators.read_all(query)
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[one for of_partition in found for one in of_partition],
    )
