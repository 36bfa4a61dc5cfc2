"""ExpireDelegationToken (KIP-48), on brokers' and controllers' listeners.

Behaviour: changes the expiry of the token with the given HMAC, or removes it if the period is negative. Only
its owner and its renewers may. Refused if the peer is not authenticated, or authenticated with a token.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security.delegation_tokens import expire
from barnabas.controller.security.token_requests import decide_for_requester, refusal
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ExpireDelegationTokenRequest,
    top_level_error(ExpireDelegationTokenResponse),
)


def handle(
    request: ExpireDelegationTokenRequest, ctx: RequestContext, role: QuorumController
) -> ExpireDelegationTokenResponse | Parked:
    return refusal(ctx, ExpireDelegationTokenResponse) or decide_for_requester(
        API, request, ctx, role, expire
    )
