"""Both ends of one OAUTHBEARER authentication (RFC 7628).

A token that is not taken is answered by an error in JSON, after which the client sends one byte and the
exchange fails with the same JSON. Source: Kafka's ``OAuthBearerSaslServer`` and ``OAuthBearerSaslClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.security.oauth.frames import ABORT, INVALID_TOKEN, format_first, parse_first
from barnabas.security.oauth.json_web_tokens import Claims, TokenRefused
from barnabas.security.scram import SaslError


class OAuthServer:
    """The server's end. `user` is set once it has succeeded."""

    is_token = False

    def __init__(self, check: Callable[[str], Claims]) -> None:
        """`check` raises ``TokenRefused``."""
        self.user: str | None = None
        self.ends_at_ms: int | None = None
        """When the token ends, in ms since the epoch."""
        self._check = check
        self._refusal = ""

    def evaluate(self, token: bytes) -> bytes:
        """Empty where the token is taken, else the error. Raises :class:`SaslError`."""
        if self._refusal:
            # A client that is refused says one byte; one that says anything else is refused as well.
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
    """The client's end, with a token that was obtained before."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self.is_done = False
        self._first = format_first(token, extensions)
        self._refused = False

    def first(self) -> bytes:
        return self._first

    def evaluate(self, challenge: bytes) -> bytes | None:
        """None: it is done. Raises :class:`SaslError`."""
        if self._refused:
            raise SaslError("the server refuses the token and continues")
        if not challenge:
            self.is_done = True
            return None
        self._refused = True
        return ABORT
