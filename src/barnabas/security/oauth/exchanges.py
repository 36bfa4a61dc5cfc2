"""Both ends of one OAUTHBEARER authentication (RFC 7628).

A refused token is answered with an error in JSON. The client then sends one byte, and the exchange fails with
the same JSON. Source: Kafka's ``OAuthBearerSaslServer`` and ``OAuthBearerSaslClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.security import SaslError
from barnabas.security.oauth.frames import ABORT, INVALID_TOKEN, format_first, parse_first
from barnabas.security.oauth.json_web_tokens import Claims, TokenRefused


class OAuthServer:
    """The server's side. `user` is set when it has succeeded."""

    is_token = False

    def __init__(self, check: Callable[[str], Claims]) -> None:
        """`check` raises ``TokenRefused``."""
        self.user: str | None = None
        self.ends_at_ms: int | None = None
        """When the token expires, in ms since 1970."""
        self._check = check
        self._refusal = ""

    def evaluate(self, token: bytes) -> bytes:
        """The answer: empty if the token is accepted, else the error. Raises :class:`SaslError`."""
        if self._refusal:
            # A refused client sends one byte; one that sends anything else is refused as well.
            raise SaslError(INVALID_TOKEN, self._refusal)
        first = parse_first(token)
        try:
            claims = self._check(first.token)
        except TokenRefused as refused:
            self._refusal = str(refused)
            return INVALID_TOKEN.encode()
        if first.authorization not in ("", claims.subject):
            raise SaslError(
                "Authentication failed: Client requested an authorization id that is different from the"
                " token's principal name"
            )
        self.user, self.ends_at_ms = claims.subject, claims.expires_ms
        return b""


class OAuthClient:
    """The client's side, with a token that was obtained before."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self.is_done = False
        self._first = format_first(token, extensions)
        self._refused = False

    def first(self) -> bytes:
        return self._first

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The answer to the server; None if the exchange is done. Raises :class:`SaslError`."""
        if self._refused:
            raise SaslError("the server refuses the token and continues")
        if not challenge:
            self.is_done = True
            return None
        self._refused = True
        return ABORT
