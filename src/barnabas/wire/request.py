"""Between a connection and a handler: the API's declaration, the context, the parked reply.

Handlers are synchronous: ``handle(request, ctx, role) -> response | Parked | None``. A handler that
cannot answer yet returns a :class:`Parked`; the component that holds it completes it later and owns
its deadline. ``None`` means that the protocol has no response (Produce with acks=0).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Protocol

from barnabas.types import Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.schema import Message

NOWHERE = Endpoint("", 0)


class Parked:
    """A request without its answer yet. Completed exactly once; later calls are ignored.

    The answer may come before the connection has attached itself: it is then kept.
    """

    __slots__ = ("_change", "_reply", "_response", "done")
    holds = False
    """Whether nothing else of its connection is served."""

    def __init__(self) -> None:
        self._reply: Callable[[Message | None], None] | None = None
        self._response: Message | None = None
        self._change: Callable[[Message], Message] | None = None
        self.done = False

    def amend(self, change: Callable[[Message], Message]) -> None:
        """Before `attach`: what goes out is `change` of the response, after earlier changes."""
        earlier = self._change
        self._change = change if earlier is None else lambda response: change(earlier(response))

    def complete(self, response: Message | None) -> bool:
        """Answer. False where it was answered before or its connection is gone."""
        if self.done:
            return False
        self.done = True
        reply, self._reply = self._reply, None
        if reply is None:
            self._response = response
        else:
            reply(response)
        return True

    def attach(self, reply: Callable[[Message | None], None]) -> None:
        """By the connection, once: where the answer goes."""
        change = self._change
        if change is not None:
            plain = reply

            def reply(response: Message | None) -> None:
                plain(None if response is None else change(response))

        if self.done:
            reply(self._response)
        else:
            self._reply = reply

    def hurry(self) -> None:
        """By the connection: the answer to a later request is ready, and has to wait for this one. What may
        be answered early is answered now."""

    def abandon(self) -> None:
        """The connection is gone: no client waits any more."""
        self.done = True
        self._reply = None

    def __repr__(self) -> str:
        return f"Parked(done={self.done})"


def then(
    first: Message | Parked | None, follow: Callable[[Message | None], Message | Parked | None]
) -> Message | Parked:
    """The answer of `follow` to the answer of `first`, each at once or later."""
    parked = Parked()

    def followed(answer: Message | None) -> None:
        second = follow(answer)
        if isinstance(second, Parked):
            second.attach(last)
        else:
            last(second)

    def last(answer: Message | None) -> None:
        parked.complete(answer)

    if isinstance(first, Parked):
        first.attach(followed)
    else:
        followed(first)
    return parked


class Working(Parked):
    """A request that is being followed, a part of it per turn of the loop. Where it `holds`, nothing else of
    its connection is served before `release`: what clients write takes effect in its order."""

    __slots__ = ("_error", "_failed", "_released", "holds")

    def __init__(self, *, holds: bool = True) -> None:
        super().__init__()
        self.holds = holds
        self._error: Exception | None = None
        self._failed: Callable[[Exception], None] | None = None
        self._released: Callable[[], None] | None = None

    def watch(self, released: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """By the connection, once, after `attach`."""
        self._released, self._failed = released, failed
        if self._error is not None:
            self.fail(self._error)

    def release(self) -> None:
        """It has taken effect; its answer may still have to wait."""
        released, self._released = self._released, None
        self.holds = False
        if released is not None:
            released()

    def fail(self, error: Exception) -> None:
        """Answer what a handler answers that raises `error`."""
        if not self.done:
            if self._failed is None:
                self._error = error  # it comes before the connection has attached itself
            else:
                self.done = True
                self._failed(error)
        self.release()

    def abandon(self) -> None:
        super().abandon()
        self._failed = self._released = None


class Proof(Enum):
    """How a peer has shown who it is."""

    NONE = 0
    """Not at all: PLAINTEXT, or TLS without a certificate."""
    OWN = 1
    """By its own certificate, password or identity provider."""
    TOKEN = 2
    """By a delegation token of the cluster."""


class RequestContext:
    """Who asks, by which version, from where."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connected_at_ms",
        "connection_id",
        "correlation_id",
        "listener",
        "peer",
        "principal",
        "proof",
        "software",
    )

    def __init__(
        self,
        *,
        api_key: int,
        api_version: int,
        correlation_id: int = 0,
        client_id: str | None = None,
        listener: str = "",
        principal: str = "User:ANONYMOUS",
        peer: Endpoint = NOWHERE,
        connection_id: int = 0,
        connected_at_ms: float = 0.0,
        software: str = "",
        proof: Proof = Proof.NONE,
    ) -> None:
        """`connected_at_ms` is the instant at which the connection was made."""
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.principal = principal
        self.peer = peer
        self.connection_id = connection_id
        self.connected_at_ms = connected_at_ms
        self.software = software
        self.proof = proof

    def __repr__(self) -> str:
        return (
            f"RequestContext({ApiKey(self.api_key).name} v{self.api_version}"
            f" #{self.correlation_id} {self.client_id!r} {self.peer} on {self.listener})"
        )


class HandlerModule(Protocol):
    """A module of ``handlers/``: ``API`` and ``handle``."""

    API: Api

    @staticmethod
    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None: ...


class Api(NamedTuple):
    """The declaration of one API in its handler module.

    `resource` and `operation` name what the caller needs (checked by the authorizer port);
    `resource` is topic, group, transactional-id, cluster, delegation-token, user or none.
    `error_response` makes the response that carries one error code for the whole request, used
    where the handler raised or the caller may not do this.
    """

    key: ApiKey
    request: type[Message]
    error_response: Callable[[Any, int, str], Message | None]
    resource: str = "none"
    operation: str = "none"


def top_level_error(response: type[Message]) -> Callable[[Any, int, str], Message]:
    """The `error_response` of an API whose response has one error code (and perhaps a message
    and a throttle time) at its top."""
    with_message = "error_message" in response.__slots__

    def error_response(request: Any, code: int, message: str) -> Message:
        if with_message:
            return response(error_code=int(code), error_message=message or None)  # type: ignore[call-arg]
        return response(error_code=int(code))  # type: ignore[call-arg]

    return error_response
