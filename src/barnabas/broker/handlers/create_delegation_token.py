"""CreateDelegationToken on a broker's listener: the broker refuses some requests itself and
forwards the rest.

Behaviour: only this broker knows how its client has authenticated. So it refuses clients that have
not authenticated, or have done so by a token. Renewers are users.

Version notes: as on a controller's listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller_client.forwarding import forward
from barnabas.controller.handlers.create_delegation_token import API
from barnabas.security.delegation_tokens import USER_TYPE, creation_response
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.wire.request import Parked, Proof, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import ForwardingRole

__all__ = ["API", "handle"]


def handle(
    request: CreateDelegationTokenRequest, ctx: RequestContext, broker: ForwardingRole
) -> CreateDelegationTokenResponse | Parked:
    if ctx.proof is not Proof.OWN:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return creation_response(request, ctx.principal, code, ctx.api_version)
    if any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return creation_response(request, ctx.principal, code, ctx.api_version)
    return forward(broker.controller, API, request, ctx, broker.config.broker.request_timeout_ms)
