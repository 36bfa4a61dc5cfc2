"""The source of this side's tokens: a file, or an identity provider's token endpoint (RFC 6749, 4.4).

`OAuthLogin` is the value of the configuration, `obtain_token` asks (and blocks), `TokenKeeper` keeps what it
got until ``sasl.login.refresh.window.factor`` of the token's life has passed. No secret and no token is in an
error. Source: KIP-768; Kafka's ``ClientCredentialsJwtRetriever``, ``FileJwtRetriever``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote, urlencode

from barnabas.config.definition import without_user
from barnabas.ports import ClientPorts, HasWeb, Web, WebRequest
from barnabas.security import SaslError
from barnabas.security.oauth.exchanges import OAuthClient
from barnabas.security.oauth.json_web_tokens import TOKEN_BYTES_MAX, unverified_expiry_ms


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """One client's. `request` is of the file or endpoint; a secret stays out of its ``repr``."""

    request: WebRequest
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    encodes_header: bool = False
    """Whether id and secret are percent-encoded in the header of the request (RFC 6749, 2.3.1)."""
    extensions: tuple[tuple[str, str], ...] = ()
    refresh_share: float = 0.8
    """The share of a token's life after which another is asked for."""


class BearerToken(NamedTuple):
    """`renew_at_ms`, `expires_ms`: since the epoch."""

    value: str
    renew_at_ms: float
    expires_ms: float

    def __repr__(self) -> str:
        return f"BearerToken(expires {self.expires_ms})"


def obtain_token(login: OAuthLogin, web: Web, wall_ms: Callable[[], int]) -> BearerToken:
    """Blocks. Raises ``OSError``, whose text has nothing of the answer."""
    if login.request.is_file:
        answer = web.fetch(login.request)
        return _bearer(_decoded(answer), None, login, wall_ms())
    identity = [login.client_id, login.client_secret]
    if login.encodes_header:
        identity = [quote(part, safe="") for part in identity]
    basic = base64.b64encode(":".join(identity).encode()).decode()
    asked = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    headers = (
        ("Authorization", f"Basic {basic}"),
        ("Accept", "application/json"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    )
    request = login.request._replace(form=urlencode(asked).encode(), headers=headers)
    asked_at_ms = wall_ms()
    try:
        found = json.loads(_decoded(web.fetch(request)))
    except (ValueError, RecursionError) as error:
        raise OSError(f"{without_user(login.request.url)} answers no JSON") from error
    token = None
    if isinstance(found, dict):
        token = found.get("access_token") or found.get("id_token")
    if not isinstance(token, str):
        raise OSError(f"the answer of {without_user(login.request.url)} has no access_token")
    lasts_s = found.get("expires_in")
    lasts_ms = lasts_s * 1000 if isinstance(lasts_s, int) and lasts_s > 0 else None
    return _bearer(token, lasts_ms, login, asked_at_ms)


def _decoded(answer: bytes) -> str:
    try:
        return answer.decode()
    except UnicodeDecodeError as error:
        raise OSError("a token's source is no UTF-8") from error


def _bearer(text: str, lasts_ms: int | None, login: OAuthLogin, now_ms: int) -> BearerToken:
    value = text.strip()
    if not value or len(value) > TOKEN_BYTES_MAX or not value.isascii() or not value.isprintable():
        raise OSError(f"{without_user(login.request.url)} has no token")
    expires_ms = unverified_expiry_ms(value)
    if expires_ms is None and lasts_ms is not None:
        expires_ms = now_ms + lasts_ms
    if expires_ms is None or login.request.is_file:
        # A file is read each time: it may have been replaced.
        return BearerToken(value, now_ms, now_ms if expires_ms is None else expires_ms)
    return BearerToken(value, now_ms + (expires_ms - now_ms) * login.refresh_share, expires_ms)


class TokenKeeper:
    """The tokens of one client or node."""

    def __init__(self, login: OAuthLogin) -> None:
        self.login = login
        self._token: BearerToken | None = None
        self._waiting: list[Callable[[OAuthClient | SaslError], None]] = []

    def exchange_now(self, web: Web, wall_ms: Callable[[], int]) -> OAuthClient:
        """Blocks. Raises :class:`SaslError`."""
        token = self._fresh(wall_ms())
        if token is None:
            try:
                token = obtain_token(self.login, web, wall_ms)
            except OSError as error:
                token = self._after(error, wall_ms())
            self._token = token
        return self._exchange(token)

    def exchange(self, ports: ClientPorts, done: Callable[[OAuthClient | SaslError], None]) -> None:
        """Give `done` an exchange with a token that is valid, or why there is none."""
        token = self._fresh(ports.clock.wall_ms())
        if token is not None:
            done(self._exchange(token))
            return
        if not isinstance(ports, HasWeb):
            done(SaslError("no token can be obtained here"))
            return
        self._waiting.append(done)
        if len(self._waiting) > 1:
            return
        web, wall_ms = ports.web, ports.clock.wall_ms

        def on_token(found: BearerToken | BaseException) -> None:
            waiting, self._waiting = self._waiting, []
            try:
                if isinstance(found, BaseException):
                    found = self._after(found, wall_ms())
                self._token = found
            except SaslError as error:
                ports.log("warning", "oauth.no_token", reason=str(error))
                for waiter in waiting:
                    waiter(error)
                return
            for waiter in waiting:
                waiter(self._exchange(found))

        ports.background.run(
            "issuer-tokens", lambda: obtain_token(self.login, web, wall_ms), on_token
        )

    def _fresh(self, now_ms: int) -> BearerToken | None:
        token = self._token
        return token if token is not None and now_ms < token.renew_at_ms else None

    def _after(self, error: BaseException, now_ms: int) -> BearerToken:
        """The former token for as long as it lasts. Raises :class:`SaslError`."""
        if self._token is not None and now_ms < self._token.expires_ms:
            return self._token
        raise SaslError(f"no token could be obtained: {error}") from error

    def _exchange(self, token: BearerToken) -> OAuthClient:
        return OAuthClient(token.value, dict(self.login.extensions))
