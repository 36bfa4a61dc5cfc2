"""RenewDelegationToken (KIP-48), on brokers' and controllers' listeners.

Behaviour: moves the expiry of the token with the given HMAC, within its maximum lifetime. Only its
owner and its renewers may. The request is refused if the client has not authenticated, or has done
so by a token.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security.delegation_tokens import renew
from barnabas.controller.security.token_requests import decide_for_requester, refusal
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.RENEW_DELEGATION_TOKEN,
    RenewDelegationTokenRequest,
    top_level_error(RenewDelegationTokenResponse),
)


def handle(
    request: RenewDelegationTokenRequest, ctx: RequestContext, role: QuorumController
) -> RenewDelegationTokenResponse | Parked:
    return refusal(ctx, RenewDelegationTokenResponse) or decide_for_requester(
        API, request, ctx, role, renew
    )
