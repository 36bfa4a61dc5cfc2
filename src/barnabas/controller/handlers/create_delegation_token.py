"""CreateDelegationToken (KIP-48, KIP-373), on brokers' and controllers' listeners.

Behaviour: writes a token for the requester, or for another owner if the requester may create tokens
for it, and answers with its HMAC. The request is refused if the client has not authenticated, or
has done so by a token. The requester is the principal of the connection or of the Envelope.

Version notes: 2 is flexible, 3 names an owner and answers with the requester.
"""

from __future__ import annotations

from barnabas.config.meta_properties import random_uuid
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security import delegation_tokens
from barnabas.controller.security.delegation_tokens import TokenRequester
from barnabas.security.delegation_tokens import creation_response
from barnabas.types import uuid_text
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.wire.request import Api, Parked, Proof, RequestContext

ANONYMOUS = "User:ANONYMOUS"


def error_response(
    request: CreateDelegationTokenRequest, code: int, message: str
) -> CreateDelegationTokenResponse:
    """The error response, without a principal as in Kafka: the version is not known here, and older
    versions name no requester."""
    return creation_response(CreateDelegationTokenRequest(), ANONYMOUS, ErrorCode(code), 0)


API = Api(
    ApiKey.CREATE_DELEGATION_TOKEN,
    CreateDelegationTokenRequest,
    error_response,
    "user",
    "create-tokens",
)


def handle(
    request: CreateDelegationTokenRequest, ctx: RequestContext, role: QuorumController
) -> CreateDelegationTokenResponse | Parked:
    if ctx.proof is not Proof.OWN:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return creation_response(request, ctx.principal, code, ctx.api_version)
    token_id = uuid_text(random_uuid(role.token_rng.randbytes))
    asked = TokenRequester(ctx.principal, role.wall_ms(), ctx.api_version)
    return role.decide(
        API,
        request,
        lambda cluster: delegation_tokens.create(cluster, role.tokens, asked, request, token_id),
        role.change_audit.of(ctx),
    )
