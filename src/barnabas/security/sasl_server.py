"""SASL on one connection of a listener, from its first bytes to a principal, and again later. Sans-IO.

`SaslListener` is what a listener's connections share: mechanisms, users, bounds. `SaslAuthenticator` is the
state machine of one connection (KIP-43, 152, 368):

    handshake -> exchange -> authenticated -> (re-authentication) handshake -> ...

SaslHandshake v0 is followed by tokens that carry no header; v1 by SaslAuthenticate. A failure is answered
after ``connection.failed.authentication.delay.ms`` and ends the connection. Before a principal is known,
time, frame size and the number of connections in that state are bounded, and any other request ends the
connection. A re-authentication must bring the same principal by the same mechanism. Source:
``SaslServerAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from barnabas import limits
from barnabas.ports import Ports, Wakeup
from barnabas.security import SaslError
from barnabas.security.jaas import OAUTHBEARER, PLAIN
from barnabas.security.oauth.exchanges import OAuthServer
from barnabas.security.oauth.issuer_keys import IssuerKeys, IssuerSettings
from barnabas.security.plain import PlainServer
from barnabas.security.scram import (
    NONCE_BYTES,
    ScramCredential,
    ScramServer,
    TokenCredential,
    nonce_of,
)
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.connection.server_connection import ServerConnection
from barnabas.wire.dispatch import ApiEntry
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from barnabas.wire.messages.sasl_handshake_response import SaslHandshakeResponse
from barnabas.wire.request import Api, Parked, Proof, RequestContext

HANDSHAKE, AUTHENTICATE = int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)
HANDSHAKE_API = Api(
    ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, top_level_error(SaslHandshakeResponse)
)
AUTHENTICATE_API = Api(
    ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, top_level_error(SaslAuthenticateResponse)
)
Credentials = Callable[[str, str], ScramCredential | None]
"""The credential of (mechanism, user), as the cluster's metadata have it."""


class Tokens(Protocol):
    """The cluster's delegation tokens."""

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None: ...


class Exchange(Protocol):
    """The server's end of one mechanism."""

    @property
    def user(self) -> str | None:
        """Once it has succeeded."""

    @property
    def ends_at_ms(self) -> int | None:
        """When what was shown ends, in ms since the epoch; None: it does not."""

    @property
    def is_token(self) -> bool:
        """Whether a delegation token was shown."""

    def evaluate(self, token: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """SASL of one listener."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    reauthentication_ms: Mapping[str, int] = field(default_factory=dict)
    """``connections.max.reauth.ms`` by mechanism; 0 is never."""
    failure_delay_ms: int = 100
    token_bytes_max: int = 524_288
    issuer: IssuerSettings | None = None
    """Whose tokens OAUTHBEARER takes."""


class SaslListener:
    """The state that the connections of one listener share."""

    def __init__(
        self,
        ports: Ports,
        listener: str,
        settings: SaslSettings,
        credentials: Credentials,
        token_bytes: Callable[[int], bytes],
        tokens: Tokens | None = None,
    ) -> None:
        self.ports = ports
        self.listener = listener
        self.settings = settings
        self.pending: set[int] = set()
        """Connections without a principal, by id."""
        self.failed = self.succeeded = 0
        self._credentials = credentials
        self._tokens = tokens
        self._token_bytes = token_bytes
        self._pepper = token_bytes(32)
        self.issuer_keys = None if settings.issuer is None else IssuerKeys(ports, settings.issuer)

    def exchange(self, mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return PlainServer(self.settings.plain_users)
        if mechanism == OAUTHBEARER:
            assert self.issuer_keys is not None
            return OAuthServer(self.issuer_keys.check)
        nonce = nonce_of(self._token_bytes(NONCE_BYTES))
        tokens = self._tokens
        return ScramServer(
            mechanism,
            lambda user: self._credentials(mechanism, user),
            nonce,
            self._pepper,
            None if tokens is None else lambda token_id: tokens.find(mechanism, token_id),
        )


class SaslAuthenticator:
    """The stage before a connection's first request: a `TokenStage` of its `ServerConnection`."""

    def __init__(self, listener: SaslListener, connection: ServerConnection) -> None:
        self.principal: str | None = None
        self.proof = Proof.NONE
        self.takes_raw_tokens = False
        """Whether the next frame is a token without a header (SaslHandshake v0)."""
        self.frame_bytes_max = listener.settings.token_bytes_max
        self._listener = listener
        self._connection = connection
        self._mechanism = self._former_mechanism = ""
        self._exchange: Exchange | None = None
        self._rounds = self._session_ms = 0
        self._over = False
        self._ends_at_ms: float | None = None
        self._deadline: Wakeup | None = None
        self._begin()

    def __repr__(self) -> str:
        return f"SaslAuthenticator({self._mechanism or 'no mechanism'}, {self.principal})"

    def entry(self, api_key: int) -> ApiEntry | None:
        """The entry that serves `api_key`; None leaves it to the listener's table. Ends the connection
        where a session is over or an exchange under way."""
        if self._over:
            self._connection.end("connection.unauthenticated", api_key=api_key)
            return None
        if api_key == HANDSHAKE and (self.principal is None or self._ends_at_ms is not None):
            return _HANDSHAKE_ENTRY._replace(role=self)
        if api_key == AUTHENTICATE and (self.principal is None or self._exchange is not None):
            return _AUTHENTICATE_ENTRY._replace(role=self)
        if self.principal is not None and self._ends_at_ms is not None:
            if self._exchange is not None:
                self._connection.end("connection.reauthentication_broken", api_key=api_key)
            elif self._listener.ports.clock.now_ms() >= self._ends_at_ms:
                self._connection.end("connection.session_expired", "info", api_key=api_key)
        return None

    def on_closed(self) -> None:
        """The connection has ended."""
        self._over = True
        self._leave_pending()

    # -- requests --------------------------------------------------------------------------------------

    def on_handshake(
        self, request: SaslHandshakeRequest, ctx: RequestContext
    ) -> SaslHandshakeResponse:
        mechanisms = list(self._listener.settings.mechanisms)
        if self._exchange is not None:
            return self._refuse_handshake(ErrorCode.ILLEGAL_SASL_STATE, "a second handshake")
        if request.mechanism not in mechanisms:
            return self._refuse_handshake(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"mechanism {request.mechanism[:40]!r} is not enabled",
            )
        if self.principal is not None and request.mechanism != self._former_mechanism:
            return self._refuse_handshake(
                ErrorCode.SASL_AUTHENTICATION_FAILED, "another mechanism at re-authentication"
            )
        self._mechanism, self._rounds = request.mechanism, 0
        self._exchange = self._listener.exchange(request.mechanism)
        self.takes_raw_tokens = ctx.api_version == 0
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def on_authenticate(
        self, request: SaslAuthenticateRequest, ctx: RequestContext
    ) -> SaslAuthenticateResponse | Parked:
        if self._exchange is None:
            self._fail("SaslAuthenticate without a handshake", lambda: None)
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received before SaslHandshake",
            )
        try:
            answer = self._evaluate(bytes(request.auth_bytes))
        except SaslError as error:
            parked = Parked()
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
            )
            self._fail(error.detail or str(error), lambda: parked.complete(response))
            return parked
        lifetime_ms = self._session_ms if self._is_done else 0
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    def on_raw_token(self, token: bytes) -> bytes | None:
        """The answer to a token without header; None where the connection ends instead."""
        try:
            answer = self._evaluate(token)
        except SaslError as error:
            self._fail(error.detail or str(error), lambda: None)
            return None
        if self._is_done:
            self.takes_raw_tokens = False
        return answer

    @property
    def _is_done(self) -> bool:
        return self._exchange is None

    # -- states ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        shared, connection = self._listener, self._connection
        if len(shared.pending) >= limits.HANDSHAKES_MAX:
            self._over = True
            connection.end("connection.authentication_refused", reason="too many are under way")
            return
        shared.pending.add(connection.id)
        at_ms = shared.ports.clock.now_ms() + limits.AUTHENTICATION_MS_MAX
        self._deadline = shared.ports.wakeups.call_at(at_ms, self._on_late)

    def _on_late(self) -> None:
        if self.principal is None and not self._over:
            self._over = True
            self._connection.end("connection.authentication_late")

    def _leave_pending(self) -> None:
        self._listener.pending.discard(self._connection.id)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _evaluate(self, token: bytes) -> bytes:
        exchange = self._exchange
        if exchange is None or self._over:
            raise SaslError("there is no exchange under way")
        self._rounds += 1
        if self._rounds > limits.SASL_ROUNDS_MAX:
            raise SaslError("the exchange has too many rounds")
        answer = exchange.evaluate(token)
        if exchange.user is not None:
            self._succeed(f"User:{exchange.user}", exchange)
        return answer

    def _succeed(self, principal: str, exchange: Exchange) -> None:
        if self.principal is not None and principal != self.principal:
            raise SaslError("Cannot change principals during re-authentication")
        shared = self._listener
        ends_at_ms, self._session_ms = exchange.ends_at_ms, self._longest_session_ms()
        if ends_at_ms is not None:
            left_ms = max(ends_at_ms - shared.ports.clock.wall_ms(), 1)
            self._session_ms = min(self._session_ms or left_ms, left_ms)
        self.proof = Proof.TOKEN if exchange.is_token else Proof.OWN
        shared.succeeded += 1
        self.principal, self._exchange = principal, None
        self._former_mechanism = self._mechanism
        if self._session_ms > 0:
            self._ends_at_ms = shared.ports.clock.now_ms() + self._session_ms
        self._leave_pending()
        self._connection.on_authenticated()

    def _longest_session_ms(self) -> int:
        return self._listener.settings.reauthentication_ms.get(self._mechanism, 0)

    def _refuse_handshake(self, code: ErrorCode, reason: str) -> SaslHandshakeResponse:
        self._fail(reason, lambda: None, delay_ms=0)
        mechanisms = list(self._listener.settings.mechanisms)
        return SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)

    def _fail(
        self, reason: str, answer: Callable[[], object], delay_ms: float | None = None
    ) -> None:
        """Log, answer after the delay, and end the connection."""
        shared, connection = self._listener, self._connection
        self._over = True
        shared.failed += 1
        shared.ports.log(
            "warning", "connection.authentication_failed",
            listener=shared.listener, peer=str(connection.peer), mechanism=self._mechanism, reason=reason,
        )  # fmt: skip

        def end() -> None:
            answer()
            connection.close()

        delay = shared.settings.failure_delay_ms if delay_ms is None else delay_ms
        shared.ports.wakeups.call_at(shared.ports.clock.now_ms() + delay, end)


def _entry(api: Api, handle: Callable[..., object]) -> ApiEntry:
    schema = API_SCHEMAS[api.key]
    return ApiEntry(
        api, handle, None,  # type: ignore[arg-type]
        schema.min_version, schema.max_stable_version, schema.first_flexible,
    )  # fmt: skip


_HANDSHAKE_ENTRY = _entry(HANDSHAKE_API, lambda request, ctx, role: role.on_handshake(request, ctx))
_AUTHENTICATE_ENTRY = _entry(
    AUTHENTICATE_API, lambda request, ctx, role: role.on_authenticate(request, ctx)
)


def refuse_handshake(
    request: SaslHandshakeRequest, ctx: RequestContext, mechanisms: list[str]
) -> SaslHandshakeResponse:
    """Refuse the handshake of a connection that needs no authentication, or has it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=mechanisms)


def refuse_authenticate(
    request: SaslAuthenticateRequest, ctx: RequestContext, role: object
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
