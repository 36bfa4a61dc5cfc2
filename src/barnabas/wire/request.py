"""The interface between a connection and a handler: an API's declaration, the request's context, and a
response that comes later.

Handlers are synchronous: ``handle(request, ctx, role) -> response | Parked | None``. A handler that
cannot answer yet returns a :class:`Parked`. The component that keeps it completes it later, and is
responsible for its deadline. ``None`` means that the protocol has no response (Produce with acks=0).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from barnabas.types import Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.schema import Message

NOWHERE = Endpoint("", 0)


class Parked:
    """A request that is not answered yet. The first `complete` counts; later calls are ignored.

    An answer that comes before the connection calls `attach` is kept until then.
    """

    __slots__ = ("_change", "_reply", "_response", "done")
    holds = False
    """Whether the connection serves no other request before this one is released (`Working`)."""

    def __init__(self) -> None:
        self._reply: Callable[[Message | None], None] | None = None
        self._response: Message | None = None
        self._change: Callable[[Message], Message] | None = None
        self.done = False

    def amend(self, change: Callable[[Message], Message]) -> None:
        """Have the response pass through `change` before it is sent, after earlier changes. Only before
        `attach`."""
        earlier = self._change
        self._change = change if earlier is None else lambda response: change(earlier(response))

    def complete(self, response: Message | None) -> bool:
        """Answer the request. False where it was answered before or its connection has ended."""
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
        """Called once by the connection: `reply` is called with the answer."""
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
        """Called by the connection when the answer to a later request is ready and must wait for this one. A
        request that may be answered early is then answered."""

    def abandon(self) -> None:
        """The connection has ended: the answer is no longer needed."""
        self.done = True
        self._reply = None

    def __repr__(self) -> str:
        return f"Parked(done={self.done})"


def then(
    first: Message | Parked | None, follow: Callable[[Message | None], Message | Parked | None]
) -> Message | Parked:
    """A request whose answer is that of `follow`, called with the answer of `first`. Either may come
    later."""
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
    """A request that is processed in parts, one per turn of the event loop. Where it `holds`, its connection
    serves no other request before `release`, so that a client's writes take effect in their order."""

    __slots__ = ("_error", "_failed", "_released", "_turn_began_ms", "_worked_ms", "holds")

    def __init__(self, *, holds: bool = True) -> None:
        super().__init__()
        self.holds = holds
        self._error: Exception | None = None
        self._failed: Callable[[Exception], None] | None = None
        self._released: Callable[[], None] | None = None
        self._turn_began_ms: float | None = None
        self._worked_ms = 0.0

    def begin_turn(self, now_ms: float) -> None:
        """The node works at the request from now until `end_turn`."""
        self._turn_began_ms = now_ms

    def end_turn(self, now_ms: float) -> None:
        if self._turn_began_ms is not None:
            self._worked_ms += now_ms - self._turn_began_ms
            self._turn_began_ms = None

    def take_worked_ms(self, now_ms: float) -> float:
        """How long the node has worked at the request since this was last asked, this turn included."""
        worked_ms, self._worked_ms = self._worked_ms, 0.0
        if self._turn_began_ms is not None:
            worked_ms += now_ms - self._turn_began_ms
            self._turn_began_ms = now_ms
        return worked_ms

    def watch(self, released: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Called once by the connection, after `attach`: `released` and `failed` are called at `release`
        and `fail`."""
        self._released, self._failed = released, failed
        if self._error is not None:
            self.fail(self._error)

    def release(self) -> None:
        """The request has taken effect; its answer may come later."""
        released, self._released = self._released, None
        self.holds = False
        if released is not None:
            released()

    def fail(self, error: Exception) -> None:
        """Answer as if the handler had raised `error`, and release."""
        if not self.done:
            if self._failed is None:
                self._error = error  # for `watch`, which the connection has yet to call
            else:
                self.done = True
                self._failed(error)
        self.release()

    def abandon(self) -> None:
        super().abandon()
        self._failed = self._released = None


class Proof(Enum):
    """How a peer has authenticated."""

    NONE = 0
    """Not at all: PLAINTEXT, or TLS without a certificate."""
    OWN = 1
    """The client authenticated by its own certificate, password or identity provider."""
    TOKEN = 2
    """The client authenticated by a delegation token of the cluster."""


class RequestContext:
    """The client, version, connection and principal of a request."""

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

    def __init__(  # noqa: PLR0913 - fields of a header and its connection
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
        """`connected_at_ms` is the instant (monotonic) at which the connection was accepted."""
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


Resource: TypeAlias = Literal[
    "topic", "group", "transactional-id", "cluster", "delegation-token", "user", "none"
]
"""The kind of resource on which an API's caller needs a permission."""


class Api(NamedTuple):
    """The declaration of one API in its handler module.

    `resource` and `operation` name the permission that the caller needs. `error_response` makes a
    response with one error code for the whole request, for a handler that raised and for a caller that
    is not authorized; None where the request has no response. `waits`: the response may wait until
    there is something to tell (Fetch). A connection serves one such request at a time, and asks it to
    hurry when a later response waits for it.
    """

    key: ApiKey
    request: type[Message]
    error_response: Callable[[Any, int, str], Message | None]
    resource: Resource = "none"
    operation: str = "none"
    waits: bool = False
