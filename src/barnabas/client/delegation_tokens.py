"""Delegation tokens by the wire: create, list, renew, expire, and the properties of a client that uses one.

Source: KIP-48, KIP-373.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.client import Client, raise_for
from barnabas.security.delegation_tokens import password_of
from barnabas.security.jaas import SCRAM_SHA_512
from barnabas.wire.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from barnabas.wire.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

EXPIRE_NOW = -1
"""A period after which a token expires."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token; principals are ``User:alice``, dates milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password with which a client authenticates, the id being its user."""
        return password_of(self.hmac)

    def login(self) -> str:
        """The value of ``sasl.jaas.config``."""
        return (
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{self.token_id}" password="{self.password}" tokenauth="true";'
        )

    def properties(self, of: Mapping[str, str]) -> dict[str, str]:
        """Those of a client that connects as the properties `of` say, but by this token."""
        mechanism = of.get("sasl.mechanism", "")
        return {
            **{key: value for key, value in of.items() if not key.startswith("sasl.")},
            "security.protocol": "SASL_SSL" if _has_tls(of) else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism if mechanism.startswith("SCRAM-") else SCRAM_SHA_512,
            "sasl.jaas.config": self.login(),
        }


def _has_tls(properties: Mapping[str, str]) -> bool:
    return properties.get("security.protocol", "").strip().upper().endswith("SSL")


async def create_token(
    client: Client,
    *,
    owner: str | None = None,
    renewers: Sequence[str] = (),
    lifetime_ms: int = -1,
) -> DelegationToken:
    """A token of `owner`, or of this client's own user; `lifetime_ms`: -1 is as long as the cluster allows.
    Principals are ``User:alice``. Raises `KafkaError`."""
    kind, _, name = (owner or "").partition(":")
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[
            CreatableRenewers(principal_type=of, principal_name=who)
            for of, _, who in (renewer.partition(":") for renewer in renewers)
        ],
        max_lifetime_ms=lifetime_ms,
    )
    answer = await client.ask_any(lambda: request, _check)
    return DelegationToken(
        answer.token_id,
        f"{answer.principal_type}:{answer.principal_name}",
        f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        tuple(renewers),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
        bytes(answer.hmac),
    )


async def list_tokens(client: Client, owners: Sequence[str] | None = None) -> list[DelegationToken]:
    """Those of `owners`, or all, that this client may see, by id. Raises `KafkaError`."""
    asked = None
    if owners is not None:
        asked = [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, _, name in (owner.partition(":") for owner in owners)
        ]
    answer = await client.ask_any(lambda: DescribeDelegationTokenRequest(owners=asked), _check)
    found = [
        DelegationToken(
            token.token_id,
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            tuple(f"{one.principal_type}:{one.principal_name}" for one in token.renewers),
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
            bytes(token.hmac),
        )
        for token in answer.tokens
    ]
    return sorted(found, key=lambda token: token.token_id)


async def renew_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Until when the token is valid now; `period_ms`: -1 is what the cluster's configuration says. Raises
    `KafkaError`."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = await client.ask_any(lambda: request, _check)
    return int(answer.expiry_timestamp_ms)


async def expire_token(client: Client, hmac: bytes, period_ms: int = EXPIRE_NOW) -> int:
    """Until when the token is valid now. Raises `KafkaError`."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer = await client.ask_any(lambda: request, _check)
    return int(answer.expiry_timestamp_ms)


def _check(response: Any) -> None:
    raise_for(response.error_code, _REASONS.get(response.error_code))


_REASONS = {
    61: "the cluster has no delegation.token.secret.key",
    62: "there is no such delegation token",
    63: "the token is another owner's, and names no renewer like this",
    64: "tokens are given to clients with a password or certificate of their own, not by a token",
    65: "this user may not create tokens of that owner",
    66: "the token has expired",
    67: "owners and renewers are users, as User:alice",
}
"""The reasons for which Kafka's responses have no text."""
