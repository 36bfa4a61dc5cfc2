"""DescribeDelegationToken (KIP-48, KIP-373).

Behaviour: returns the tokens of the named owners, or of all, from this broker's metadata, each with
its HMAC. A client sees the tokens that it owns, has requested or may renew, and others by
permission (the authorizer leaves the rest out). The request is refused if the client has not
authenticated, or has done so by a token.

Version notes: 2 is flexible, 3 says who has requested a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.security.delegation_tokens import (
    REQUESTER_SINCE,
    TokenSecrets,
    concerned_by,
    tokens_of,
)
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from barnabas.wire.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from barnabas.wire.request import Api, Proof, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import TokenRole

API = Api(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    DescribeDelegationTokenRequest,
    top_level_error(DescribeDelegationTokenResponse),
)


def handle(
    request: DescribeDelegationTokenRequest, ctx: RequestContext, broker: TokenRole
) -> DescribeDelegationTokenResponse:
    if ctx.proof is not Proof.OWN:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=code)
    secrets = TokenSecrets.of(broker.config.values)
    if not secrets.enabled:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return DescribeDelegationTokenResponse(error_code=code)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secrets, ctx.api_version)
            for token in tokens_of(broker.image).values()
            if owners is None or not owners.isdisjoint(concerned_by(token))
        ]
    )


def _described(
    token: DelegationTokenRecord, secrets: TokenSecrets, version: int
) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    said = token.requester if version >= REQUESTER_SINCE else ""
    requester_kind, _, requester = said.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secrets.hmac_of(token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=of, principal_name=name)
            for of, _, name in renewers
        ],
    )
