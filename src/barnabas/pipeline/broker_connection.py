"""One connection to a broker for a program that asks and waits: a Spark task, or its driver.

Owns a blocking socket under the sans-IO :class:`barnabas.client.network.connection.ClientConnection`.
There is no event loop, no thread and no state beyond the socket, because a Spark Python worker
is a forked process that does one thing at a time. Requests may be submitted ahead of the answer
that is waited for, so that the next fetch is on its way while the last one is decoded.

Failures are :class:`barnabas.client.network.connection.ChannelError`; this module retries nothing.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.client.network.authentication import Authentication
from barnabas.client.network.connection import ChannelError, ClientConnection, InFlight
from barnabas.pipeline.errors import OptionError
from barnabas.security import SaslError
from barnabas.security.sasl_client import ClientExchange
from barnabas.security.tls_stream import sentence_of
from barnabas.types import Buffer, Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.host.tls_contexts import HostSecrets
    from barnabas.host.web import HostWeb
    from barnabas.security.client_security import ClientSecurity
    from barnabas.security.oauth.login import OAuthLogin, TokenKeeper

M = TypeVar("M", bound=Message)

NEWEST: dict[int, int] = {ApiKey.INIT_PRODUCER_ID: 6}
"""Versions that Kafka calls unstable and that are spoken here: that of two-phase commit (KIP-939)."""


def now_ms() -> float:
    return time.monotonic() * 1000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def open_socket(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    """A connected socket. One that its peer ends at once may refuse to be set up."""
    connected = socket.create_connection(endpoint, timeout=timeout_s)
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        connected.close()
        raise
    return connected


def _context_of(security: ClientSecurity | None) -> ssl.SSLContext | None:
    """None without TLS. Raises `OptionError` where a store cannot be used: no try cures that."""
    if security is None or security.tls is None:
        return None
    try:
        return _secrets().context(security.tls, is_server=False)
    except OSError as error:
        raise OptionError(f"on host {socket.gethostname()}: kafka.{error}") from error


def _secured(
    raw: socket.socket, endpoint: Endpoint, context: ssl.SSLContext | None
) -> socket.socket:
    """`raw` itself, or behind TLS."""
    if context is None:
        return raw
    try:
        return context.wrap_socket(raw, server_hostname=endpoint.host)
    except BaseException:
        raw.close()
        raise


@cache
def _secrets() -> HostSecrets:
    """This process's TLS contexts; their certificates are read again where their files have changed."""
    from barnabas.host.tls_contexts import HostSecrets  # as below: only secured connections load it

    return HostSecrets(lambda *event, **fields: None)


def _authentication(security: ClientSecurity | None) -> Authentication | None:
    credential = security.sasl if security is not None else None
    if credential is None:
        return None

    def exchange(done: Callable[[ClientExchange | SaslError], None]) -> None:
        try:
            if credential.login is not None:
                done(_tokens(credential.login).exchange_now(_web(), wall_ms))
            else:
                done(credential.password_exchange(_secrets().token_bytes))
        except SaslError as error:
            done(error)

    return Authentication(credential.mechanism, exchange, now_ms)


@cache
def _web() -> HostWeb:
    from barnabas.host.web import HostWeb

    return HostWeb(_secrets().client_context)


@cache
def _tokens(login: OAuthLogin) -> TokenKeeper:
    """This process's tokens of `login`."""
    from barnabas.security.oauth.login import TokenKeeper

    return TokenKeeper(login)


class Answer:
    """A request under way; `BlockingConnection.wait` fills it."""

    __slots__ = ("deadline_ms", "result")

    def __init__(self, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        self.result: Any = None

    def take(self, result: Any) -> None:
        self.result = result


class BlockingConnection:
    """A stream to `endpoint`, open from construction. Raises `ChannelError` where it cannot be, `OptionError`
    where its certificates cannot be read."""

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: str,
        *,
        timeout_ms: float,
        security: ClientSecurity | None = None,
    ) -> None:
        context = _context_of(security)
        self.endpoint = endpoint
        self._later: deque[Callable[[], None]] = deque()
        self._client = ClientConnection(
            endpoint,
            client_id,
            self._on_end,
            self._later.append,
            newest=NEWEST,
            authentication=_authentication(security),
        )
        try:
            self._socket = _secured(open_socket(endpoint, timeout_ms / 1000), endpoint, context)
        except ConnectionRefusedError as error:
            raise ChannelError("refused", f"no process listens at {endpoint}") from error
        except (ssl.SSLError, ssl.CertificateError) as error:
            text = f"no TLS connection to {endpoint}: {sentence_of(error)}"
            raise ChannelError("authentication", text) from error
        except OSError as error:
            raise ChannelError("closed", f"no connection to {endpoint}: {error}") from error
        self._client.on_connected(self)

    def __repr__(self) -> str:
        return f"BlockingConnection({self.endpoint} in_flight={self._client.in_flight})"

    @property
    def is_over(self) -> bool:
        return self._client.is_over

    def submit(self, request: Message, *, timeout_ms: float, at_most: int | None = None) -> Answer:
        """Send `request`, in the highest version both sides speak that is not above `at_most`; `wait`
        gives its answer."""
        answer = Answer(now_ms() + timeout_ms)
        if not self.is_over:
            self._socket.settimeout(timeout_ms / 1000)
        self._client.submit(InFlight(request, answer.take, answer.deadline_ms, None, at_most))
        return answer

    def wait(self, answer: Answer) -> Any:
        """The response to a submitted request. Raises `ChannelError`, after which it is over."""
        while answer.result is None:
            while self._later:
                self._later.popleft()()
            if answer.result is None:
                self._receive(answer.deadline_ms)
        if isinstance(answer.result, ChannelError):
            raise answer.result
        return answer.result

    def call(
        self,
        request: Message,
        response: type[M],
        *,
        timeout_ms: float,
        at_most: int | None = None,
    ) -> M:
        """Ask and wait."""
        result = self.wait(self.submit(request, timeout_ms=timeout_ms, at_most=at_most))
        assert isinstance(result, response)
        return result

    def close(self) -> None:
        self._client.close()

    def _receive(self, deadline_ms: float) -> None:
        left_ms = deadline_ms - now_ms()
        if left_ms <= 0:
            self._client.expire(now_ms())
            return
        try:
            self._socket.settimeout(left_ms / 1000)
            size = self._socket.recv_into(self._client.get_buffer())
        except TimeoutError:
            self._client.expire(now_ms())
        except OSError as error:
            self._client.on_closed(error)
        else:
            if size:
                self._client.buffer_updated(size)
            else:
                self._client.on_closed(None)

    def _on_end(self, client: ClientConnection, error: ChannelError) -> None:
        self._socket.close()

    # -- ports.Connection, as the sans-IO side sees it -------------------------------------------

    @property
    def peer(self) -> Endpoint:
        return self.endpoint

    @property
    def unsent_bytes(self) -> int:
        return 0

    def send(self, parts: Sequence[Buffer]) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            failure = error
            self._later.append(lambda: self._client.on_closed(failure))

    def abort(self) -> None:
        self._socket.close()

    def pause_reading(self) -> None:
        """Does nothing: the socket is only read while a caller waits for a response."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""
