"""The client's end of SASL: a mechanism with its credential, and exchanges made of it. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.security.jaas import PLAIN
from barnabas.security.oauth.login import OAuthLogin
from barnabas.security.plain import PlainClient
from barnabas.security.scram import NONCE_BYTES, ScramClient, nonce_of


class ClientExchange(Protocol):
    """One authentication."""

    is_done: bool

    def first(self) -> bytes: ...

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The next token; None where there is none. Raises ``SaslError``."""


@dataclass(frozen=True, slots=True)
class SaslCredential:
    """Who this side says it is: a user and a password, or of OAUTHBEARER a `login`."""

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    login: OAuthLogin | None = None
    by_token: bool = False
    """Whether `user` is a delegation token's id and `password` its HMAC."""

    def password_exchange(self, token_bytes: Callable[[int], bytes]) -> ClientExchange:
        """The exchange of a mechanism with a password."""
        if self.mechanism == PLAIN:
            return PlainClient(self.user, self.password)
        nonce = nonce_of(token_bytes(NONCE_BYTES))
        return ScramClient(self.mechanism, self.user, self.password, nonce, by_token=self.by_token)
