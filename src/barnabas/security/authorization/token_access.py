"""The rules of the APIs of delegation tokens.

Who may not ask at all, because of how it has authenticated, is refused by the handlers, whatever it may do.
Source: KIP-48, KIP-373; Kafka's ``DelegationTokenManager.filterToken``.
"""

from __future__ import annotations

from typing import Any

from barnabas.security.authorization.access_rules import Answer, Question
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.delegation_tokens import concerned_by, creation_response, owner_of, tokens_of
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_delegation_token_response import DescribedDelegationToken
from barnabas.wire.request import Proof
from barnabas.wire.schema import Message

TOKEN, USER = AclResourceType.DELEGATION_TOKEN, AclResourceType.USER


def check_create_token(question: Question) -> Answer:
    """A token of another owner needs CreateTokens on that owner."""
    request, ctx = question.request, question.ctx
    owner = owner_of(request, ctx.principal)
    if ctx.proof is not Proof.OWN or owner == ctx.principal:
        return None
    if question.may(Operation.CREATE_TOKENS, USER, owner):
        return None
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return creation_response(request, ctx.principal, code, ctx.api_version)


def check_describe_token(question: Question) -> Answer:
    """Owners, requesters and renewers see their tokens; others those that Describe on the token allows, or
    DescribeTokens on its owner."""
    principal, known = question.ctx.principal, tokens_of(question.image)

    def is_seen(token: DescribedDelegationToken) -> bool:
        owner = f"{token.principal_type}:{token.principal_name}"
        record = known.get(token.token_id)
        return (
            (record is not None and principal in concerned_by(record))
            or question.may(Operation.DESCRIBE, TOKEN, token.token_id, audited=False)
            or question.may(Operation.DESCRIBE_TOKENS, USER, owner, audited=False)
        )

    def amend(response: Any) -> Message:
        response.tokens = [token for token in response.tokens if is_seen(token)]
        found: Message = response
        return found

    return amend
