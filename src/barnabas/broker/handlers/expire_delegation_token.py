"""ExpireDelegationToken on a broker's listener: forwarded, but for peers that may not ask.

Behaviour: only this broker knows how its client has authenticated. So it refuses clients that have
not authenticated, or have done so by a token.

Version notes: as on a controller's listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller_client.forwarding import forward
from barnabas.controller.handlers.expire_delegation_token import API
from barnabas.controller.security.token_requests import refusal
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.wire.request import Parked, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import ForwardingRole

__all__ = ["API", "handle"]


def handle(
    request: ExpireDelegationTokenRequest, ctx: RequestContext, broker: ForwardingRole
) -> ExpireDelegationTokenResponse | Parked:
    return refusal(ctx, ExpireDelegationTokenResponse) or forward(
        broker.controller, API, request, ctx, broker.config.broker.request_timeout_ms
    )
