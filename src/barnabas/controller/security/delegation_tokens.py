"""Decides about delegation tokens: create, renew, expire, and remove expired ones.

A renewal writes the token's record again with another date; a token that is expired at once is
removed. Requests find the token by its HMAC. Times are dates in milliseconds since 1970.

Source: KIP-48, KIP-373, KIP-900; Kafka's ``DelegationTokenControlManager``.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, Protocol

from barnabas.config.node import NodeConfig
from barnabas.controller.decision import Decision
from barnabas.metadata import features as levels
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.security.delegation_tokens import (
    USER_TYPE,
    TokenSecrets,
    creation_response,
    is_expired,
    owner_of,
    tokens_of,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse

TOKENS_METADATA_VERSION = 14
"""3.6-IV2 has the record."""
REMOVED_PER_DECISION = 1_000
LATEST_MS = (1 << 63) - 1
"""The last date that a record can hold."""


class HasTokens(Protocol):
    """The state on which decisions about tokens are made: a controller's image, or a broker's where
    ZooKeeper coordinates the cluster."""

    @property
    def image(self) -> MetadataImage: ...


class TokenSettings(NamedTuple):
    """The cluster's settings for tokens."""

    secrets: TokenSecrets
    lifetime_ms_max: int
    """``delegation.token.max.lifetime.ms``"""
    renewal_ms: int
    """``delegation.token.expiry.time.ms``"""

    @classmethod
    def of(cls, config: NodeConfig) -> TokenSettings:
        return cls(
            TokenSecrets.of(config.values),
            config.int_value("delegation.token.max.lifetime.ms"),
            config.int_value("delegation.token.expiry.time.ms"),
        )


class TokenRequester(NamedTuple):
    """The requester of a decision, and the time of the request."""

    principal: str
    wall_ms: int
    version: int
    """The version of the request."""


def create(
    cluster: HasTokens,
    rules: TokenSettings,
    asked: TokenRequester,
    request: CreateDelegationTokenRequest,
    token_id: str,
) -> Decision[CreateDelegationTokenResponse]:
    code = _unusable(cluster, rules)
    if code is None and any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    if code is not None:
        return Decision(creation_response(request, asked.principal, code, asked.version, 0))
    lifetime_ms = rules.lifetime_ms_max
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = min(asked.wall_ms + lifetime_ms, LATEST_MS)
    expires_ms = min(max_ms, asked.wall_ms + rules.renewal_ms)
    owner = owner_of(request, asked.principal)
    record = DelegationTokenRecord(
        owner=owner,
        requester=asked.principal,
        renewers=[
            f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers
        ],
        issue_timestamp=asked.wall_ms,
        max_timestamp=max_ms,
        expiration_timestamp=expires_ms,
        token_id=token_id,
    )
    response = creation_response(request, asked.principal, ErrorCode.NONE, asked.version)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = asked.wall_ms, expires_ms
    response.max_timestamp_ms, response.token_id = max_ms, token_id
    response.hmac = rules.secrets.hmac_of(token_id)
    reason = f"{asked.principal} creates delegation token {token_id} of {owner}"
    return Decision(response, [record], reason)


def renew(
    cluster: HasTokens,
    rules: TokenSettings,
    asked: TokenRequester,
    request: RenewDelegationTokenRequest,
) -> Decision[RenewDelegationTokenResponse]:
    found = _find(cluster, rules, request.hmac)
    if isinstance(found, DelegationTokenRecord):
        if is_expired(found, asked.wall_ms):
            found = ErrorCode.DELEGATION_TOKEN_EXPIRED
        elif not _may_renew(asked.principal, found):
            found = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if isinstance(found, ErrorCode):
        return Decision(RenewDelegationTokenResponse(error_code=found))
    period_ms = rules.renewal_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    record = _until(found, asked.wall_ms + period_ms)
    return Decision(
        RenewDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp),
        [record],
        f"{asked.principal} renews delegation token {found.token_id}",
    )


def expire(
    cluster: HasTokens,
    rules: TokenSettings,
    asked: TokenRequester,
    request: ExpireDelegationTokenRequest,
) -> Decision[ExpireDelegationTokenResponse]:
    """Decide ExpireDelegationToken. A negative period removes the token at once, also one that has
    expired but still exists."""
    found = _find(cluster, rules, request.hmac)
    period_ms = request.expiry_time_period_ms
    if isinstance(found, DelegationTokenRecord):
        if not _may_renew(asked.principal, found):
            found = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        elif period_ms >= 0 and is_expired(found, asked.wall_ms):
            found = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if isinstance(found, ErrorCode):
        return Decision(ExpireDelegationTokenResponse(error_code=found))
    reason = f"{asked.principal} expires delegation token {found.token_id}"
    if period_ms < 0:
        gone = RemoveDelegationTokenRecord(token_id=found.token_id)
        answer = ExpireDelegationTokenResponse(expiry_timestamp_ms=asked.wall_ms)
        return Decision(answer, [gone], reason)
    record = _until(found, asked.wall_ms + period_ms)
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp)
    return Decision(response, [record], reason)


def remove_expired(cluster: HasTokens, wall_ms: int) -> Decision[None]:
    """Decide to remove at most `REMOVED_PER_DECISION` expired tokens."""
    gone = [
        token_id
        for token_id, token in tokens_of(cluster.image).items()
        if is_expired(token, wall_ms)
    ][:REMOVED_PER_DECISION]
    records = [RemoveDelegationTokenRecord(token_id=token_id) for token_id in gone]
    return Decision(None, records, f"{len(gone)} delegation tokens have expired" if gone else "")


def supported(cluster: HasTokens) -> bool:
    """Whether the cluster's metadata can hold tokens."""
    return cluster.image.features.get(levels.METADATA_VERSION, 0) >= TOKENS_METADATA_VERSION


def _unusable(cluster: HasTokens, rules: TokenSettings) -> ErrorCode | None:
    if not rules.secrets.enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return None if supported(cluster) else ErrorCode.UNSUPPORTED_VERSION


def _may_renew(principal: str, token: DelegationTokenRecord) -> bool:
    return principal == token.owner or principal in token.renewers


def _find(
    cluster: HasTokens, rules: TokenSettings, secret: bytes
) -> DelegationTokenRecord | ErrorCode:
    """The token that has an HMAC."""
    code = _unusable(cluster, rules)
    if code is not None:
        return code
    token = rules.secrets.find(tokens_of(cluster.image), bytes(secret))
    return token or ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def _until(token: DelegationTokenRecord, wall_ms: int) -> DelegationTokenRecord:
    """A copy of `token` with another expiry, within its maximum lifetime."""
    changed = copy(token)
    changed.expiration_timestamp = min(token.max_timestamp, wall_ms)
    return changed
