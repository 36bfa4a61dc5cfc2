"""ExpireDelegationToken (KIP-48), on brokers' and controllers' listeners.

Behaviour: gives the token of an HMAC another end, or removes it where the period is negative; asked by its
owner or a renewer. Refused where the peer is not authenticated, or has authenticated by a token.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security import delegation_tokens
from barnabas.controller.security.delegation_tokens import TokenRequester
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.wire.request import Api, Parked, Proof, RequestContext, top_level_error

API = Api(
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ExpireDelegationTokenRequest,
    top_level_error(ExpireDelegationTokenResponse),
)


def not_allowed() -> ExpireDelegationTokenResponse:
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


def handle(
    request: ExpireDelegationTokenRequest, ctx: RequestContext, role: QuorumController
) -> ExpireDelegationTokenResponse | Parked:
    if ctx.proof is not Proof.OWN:
        return not_allowed()
    asked = TokenRequester(ctx.principal, role.wall_ms(), ctx.api_version)
    return role.decide(
        API, request, lambda cluster: delegation_tokens.expire(cluster, role.tokens, asked, request)
    )
