"""Delegation tokens: the HMAC of a token's id, and the SCRAM credentials that follow from it.

A token is a record of the metadata log with its owner, its renewers and its expiry. Its secret, the HMAC of
its id, is in no record: each node computes it with ``delegation.token.secret.key``, so all nodes have the
same key. A client authenticates by SCRAM with the token's id as user and the HMAC in base64 as password.

Invariant: nothing here shows a key or an HMAC in its ``repr``.

Source: KIP-48, KIP-373 (owners), KIP-900; Kafka's ``DelegationTokenManager`` and ``DelegationTokenCache``.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import cast

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.security.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    TokenCredential,
    new_credential,
    new_salt,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse

SECRET_KEY = "delegation.token.secret.key"
USER_TYPE = "User"
REQUESTER_SINCE = 3
"""The version of the APIs from which on they name the requester of a token."""
CREDENTIALS_MAX = 10_000
"""Cached credentials; all are dropped when there are more."""


def tokens_of(image: MetadataImage) -> Mapping[str, DelegationTokenRecord]:
    """The tokens of an image, by id."""
    return cast("dict[str, DelegationTokenRecord]", image.delegation_tokens)


def concerned_by(token: DelegationTokenRecord) -> list[str]:
    """The principals of a token: its owner, its requester and its renewers."""
    return [token.owner, token.requester, *token.renewers]


def is_expired(token: DelegationTokenRecord, wall_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < wall_ms


def password_of(secret: bytes) -> str:
    """A client's password: the HMAC in base64."""
    return base64.b64encode(secret).decode()


def owner_of(request: CreateDelegationTokenRequest, principal: str) -> str:
    """The owner of a requested token; the requester if the request names none. Raises INVALID_REQUEST."""
    if not request.owner_principal_name:
        return principal
    if request.owner_principal_type is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the owner of a token has a type and a name")
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def creation_response(
    request: CreateDelegationTokenRequest,
    principal: str,
    code: ErrorCode,
    version: int,
    at_ms: int = -1,
) -> CreateDelegationTokenResponse:
    """The answer in `version` about a token of the request's owner; all its times are `at_ms`."""
    kind, _, name = owner_of(request, principal).partition(":")
    said = principal if version >= REQUESTER_SINCE else ""
    requester_kind, _, requester = said.partition(":")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester,
        issue_timestamp_ms=at_ms,
        expiry_timestamp_ms=at_ms,
        max_timestamp_ms=at_ms,
    )


class TokenSecrets:
    """The HMACs of tokens, by the cluster's key."""

    def __init__(self, key: str | None) -> None:
        """Without a `key` there are no delegation tokens."""
        self._key = None if key is None else key.encode()
        self._ids: dict[bytes, str] = {}
        """Token ids by HMAC, brought up to date by a search."""

    @classmethod
    def of(cls, values: Mapping[str, object]) -> TokenSecrets:
        """The secrets of a node's typed configuration."""
        key = values[SECRET_KEY]
        return cls(key if isinstance(key, str) and key else None)

    @property
    def enabled(self) -> bool:
        return self._key is not None

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token, 64 bytes."""
        assert self._key is not None
        return hmac.new(self._key, token_id.encode(), "sha512").digest()

    def find(
        self, tokens: Mapping[str, DelegationTokenRecord], secret: bytes
    ) -> DelegationTokenRecord | None:
        """The token whose HMAC is `secret`; None if there is none."""
        token = tokens.get(self._ids.get(secret, ""))
        if token is None and len(secret) == 64:
            self._follow(tokens)
            token = tokens.get(self._ids.get(secret, ""))
        return token

    def _follow(self, tokens: Mapping[str, DelegationTokenRecord]) -> None:
        known = {token_id: secret for secret, token_id in self._ids.items() if token_id in tokens}
        self._ids = {known.get(token_id) or self.hmac_of(token_id): token_id for token_id in tokens}

    def __repr__(self) -> str:
        return f"TokenSecrets({'enabled' if self.enabled else 'disabled'})"


class TokenCredentials:
    """SCRAM credentials of an image's tokens, made when a client authenticates with one."""

    def __init__(
        self,
        secrets: TokenSecrets,
        image: Callable[[], MetadataImage],
        wall_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._secrets = secrets
        self._image = image
        self._wall_ms = wall_ms
        self._random_bytes = random_bytes
        self._kept: dict[tuple[str, str], ScramCredential] = {}

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """The credential of a token; None if the token does not exist or has expired."""
        token = tokens_of(self._image()).get(token_id) if self._secrets.enabled else None
        if token is None or is_expired(token, self._wall_ms()):
            return None
        _, _, name = token.owner.partition(":")
        ends_at_ms = min(token.expiration_timestamp, token.max_timestamp)
        return TokenCredential(self._credential(mechanism, token_id), name, ends_at_ms)

    def _credential(self, mechanism: str, token_id: str) -> ScramCredential:
        found = self._kept.get((mechanism, token_id))
        if found is None:
            if len(self._kept) >= CREDENTIALS_MAX:
                self._kept.clear()
            password = password_of(self._secrets.hmac_of(token_id))
            salt = new_salt(self._random_bytes)
            found = new_credential(mechanism, password, salt, MIN_ITERATIONS)
            self._kept[mechanism, token_id] = found
        return found
