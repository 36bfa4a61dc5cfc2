"""SASL authentication of one outgoing connection, and its renewal before the session expires. Sans-IO.

Uses SaslHandshake v1 and SaslAuthenticate v1, which every broker since Kafka 2.2 serves. The connection sends
the requests. Source: KIP-43, KIP-152, KIP-368; ``SaslClientAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas import limits
from barnabas.security import SaslError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from barnabas.wire.messages.sasl_handshake_response import SaslHandshakeResponse
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.security.sasl_client import ClientExchange

HANDSHAKE_VERSION = AUTHENTICATE_VERSION = 1
SESSION_SHARE = 0.85
"""Share of a session's lifetime after which it is renewed before the next request."""
NewExchange: TypeAlias = "Callable[[Callable[[ClientExchange | SaslError], None]], None]"
"""Calls its argument, at once or later, with an exchange, or with the reason why there is none."""
Ask = Callable[[Message, int, Callable[[Any], None]], None]
"""Sends a request: (request, version, callback for the response or for the connection's end)."""


class Authentication:
    """The authentication of one connection."""

    def __init__(self, mechanism: str, exchange: NewExchange, now_ms: Callable[[], float]) -> None:
        self._mechanism = mechanism
        self._exchange = exchange
        self._now_ms = now_ms
        self._ask: Ask | None = None
        self._done: Callable[[str | None], None] | None = None
        self._due_at_ms: float | None = 0.0
        """When the next exchange is due; None if the session does not expire."""

    def is_due(self) -> bool:
        return self._due_at_ms is not None and self._now_ms() >= self._due_at_ms

    def deadline_ms(self) -> float:
        return self._now_ms() + limits.AUTHENTICATION_MS_MAX

    def begin(self, ask: Ask, done: Callable[[str | None], None]) -> None:
        """Authenticate; `ask` sends the requests. `done` gets None, or why it failed."""
        self._ask, self._done = ask, done
        ask(
            SaslHandshakeRequest(mechanism=self._mechanism),
            HANDSHAKE_VERSION,
            self._on_handshake,
        )

    def _on_handshake(self, response: SaslHandshakeResponse | Exception) -> None:
        if isinstance(response, Exception):
            return  # the connection is over
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms)
            self._end(f"the server does not enable {self._mechanism}, but {offered}")
            return
        if response.error_code != ErrorCode.NONE:
            self._end(f"SaslHandshake was answered with error {response.error_code}")
            return
        self._exchange(self._on_exchange)

    def _on_exchange(self, exchange: ClientExchange | SaslError) -> None:
        if isinstance(exchange, SaslError):
            self._end(str(exchange))
        else:
            self._send(exchange, exchange.first())

    def _send(self, exchange: ClientExchange, token: bytes) -> None:
        assert self._ask is not None
        self._ask(
            SaslAuthenticateRequest(auth_bytes=token),
            AUTHENTICATE_VERSION,
            lambda response: self._on_token(exchange, response),
        )

    def _on_token(
        self, exchange: ClientExchange, response: SaslAuthenticateResponse | Exception
    ) -> None:
        if isinstance(response, Exception):
            return
        if response.error_code != ErrorCode.NONE:
            self._end(response.error_message or f"error {response.error_code}")
            return
        try:
            token = exchange.evaluate(bytes(response.auth_bytes))
        except SaslError as error:
            self._end(str(error))
            return
        if token is not None:
            self._send(exchange, token)
            return
        lifetime_ms = response.session_lifetime_ms
        self._due_at_ms = self._now_ms() + lifetime_ms * SESSION_SHARE if lifetime_ms > 0 else None
        self._end(None)

    def _end(self, problem: str | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(problem)
