"""The common part of RenewDelegationToken and ExpireDelegationToken, on all listeners.

Both name a token by its HMAC and answer with its new expiry. A client that has not authenticated,
or has done so by a token, is refused.

Source: Kafka's ``KafkaApis.allowTokenRequests``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.security.change_audit import ChangeAudit
from barnabas.controller.security.delegation_tokens import TokenRequester, TokenSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from barnabas.wire.request import Api, Parked, Proof, RequestContext
from barnabas.wire.schema import Message

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


class TokenDecisions(Protocol):
    """The part of the active controller that decides about tokens."""

    @property
    def tokens(self) -> TokenSettings: ...
    @property
    def change_audit(self) -> ChangeAudit: ...
    def wall_ms(self) -> int: ...
    def decide(
        self,
        api: Api,
        request: Message,
        decider: Callable[[ControllerContext], Decision[Any]],
        on_appended: Callable[[Decision[Any], int], None] | None = None,
    ) -> Any: ...


def refusal(ctx: RequestContext, response: type[ResponseT]) -> ResponseT | None:
    """The answer to a client that may not manage tokens; None if it may."""
    if ctx.proof is Proof.OWN:
        return None
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return response(error_code=code, expiry_timestamp_ms=-1)


def decide_for_requester(
    api: Api,
    request: RequestT,
    ctx: RequestContext,
    role: TokenDecisions,
    decider: Callable[
        [ControllerContext, TokenSettings, TokenRequester, RequestT], Decision[ResponseT]
    ],
) -> ResponseT | Parked:
    """Decide by `decider` for the principal of `ctx`, at the present time."""
    asked = TokenRequester(ctx.principal, role.wall_ms(), ctx.api_version)
    answer: ResponseT | Parked = role.decide(
        api,
        request,
        lambda cluster: decider(cluster, role.tokens, asked, request),
        role.change_audit.of(ctx),
    )
    return answer
