"""RenewDelegationToken (KIP-48), on brokers' and controllers' listeners.

Behaviour: gives the token of an HMAC a later end, not beyond the longest it may have; asked by its owner or
a renewer. Refused where the peer is not authenticated, or has authenticated by a token.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security import delegation_tokens
from barnabas.controller.security.delegation_tokens import TokenRequester
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from barnabas.wire.request import Api, Parked, Proof, RequestContext, top_level_error

API = Api(
    ApiKey.RENEW_DELEGATION_TOKEN,
    RenewDelegationTokenRequest,
    top_level_error(RenewDelegationTokenResponse),
)


def not_allowed() -> RenewDelegationTokenResponse:
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


def handle(
    request: RenewDelegationTokenRequest, ctx: RequestContext, role: QuorumController
) -> RenewDelegationTokenResponse | Parked:
    if ctx.proof is not Proof.OWN:
        return not_allowed()
    asked = TokenRequester(ctx.principal, role.wall_ms(), ctx.api_version)
    return role.decide(
        API, request, lambda cluster: delegation_tokens.renew(cluster, role.tokens, asked, request)
    )
