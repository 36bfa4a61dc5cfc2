"""SASL PLAIN: a name and a password in clear text (RFC 4616); for connections that TLS protects.

Passwords are compared in constant time; an unknown user is answered like a wrong password. Source: Kafka's
``PlainSaslServer``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from barnabas.security import SaslError

WRONG = "Authentication failed: Invalid username or password"


class PlainServer:
    """The server's end. `user` is set once it has succeeded."""

    is_token = False
    ends_at_ms: int | None = None

    def __init__(self, users: Mapping[str, str]) -> None:
        self.user: str | None = None
        self._users = users

    def evaluate(self, token: bytes) -> bytes:
        """Nothing more is said. Raises :class:`SaslError`."""
        parts = token.split(b"\x00")
        if len(parts) != 3:
            raise SaslError("Invalid SASL/PLAIN response: expected 3 tokens")
        try:
            authorization, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError as error:
            raise SaslError("Invalid SASL/PLAIN response: no UTF-8") from error
        if not name or not password:
            raise SaslError("Authentication failed: username or password not specified")
        expected = self._users.get(name)
        same = hmac.compare_digest(
            (expected if expected is not None else password).encode(), password.encode()
        )
        if not expected or not same:
            raise SaslError(WRONG)
        if authorization not in ("", name):
            raise SaslError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = name
        return b""


class PlainClient:
    """The client's end."""

    def __init__(self, user: str, password: str) -> None:
        self.is_done = False
        self._token = b"\x00".join((b"", user.encode(), password.encode()))

    def first(self) -> bytes:
        return self._token

    def evaluate(self, challenge: bytes) -> bytes | None:
        """None: it is done."""
        self.is_done = True
        return None
