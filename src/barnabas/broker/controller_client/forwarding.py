"""Forwards requests that only the active controller can answer, in an Envelope (KIP-590).

One generic handler serves all of them: it forwards the client's request unchanged, with its
principal and its version, and returns the controller's answer unchanged. A request that is not
answered in time gets the API's own error response.

A controller of Kafka 3.9 in ZooKeeper mode takes no envelopes: it names their API in ApiVersions,
and closes the connection. This broker then authorizes the request itself. It answers what any
broker may answer there, and sends the rest in its own name.

Source: Kafka's ``ForwardingManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.controller_client.controller_channel import (
    AS_BROKER,
    FORWARD,
    ControllerChannel,
)
from barnabas.wire.codec import MalformedError
from barnabas.wire.envelope import unwrap, wrap
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.envelope_response import EnvelopeResponse
from barnabas.wire.request import Api, HandlerModule, Parked, RequestContext
from barnabas.wire.schema import Message

CLOSES_MAX = 2
"""Closed connections after which a controller takes no envelopes: one that dies closes one, and
refuses the next."""
NOT_TRUSTED = "the controller refuses this broker's envelopes: its principal lacks ClusterAction"


def forward(
    controller: ControllerChannel,
    api: Api,
    request: Message,
    ctx: RequestContext,
    timeout_ms: float,
    without_envelopes: Callable[[], Message | Parked | None] | None = None,
) -> Parked:
    """Send a client's request to the active controller. `without_envelopes` answers if that
    controller takes no envelopes."""
    parked = Parked()

    def complete(answer: Message | None) -> None:
        parked.complete(answer)

    def on_answer(response: EnvelopeResponse | KafkaError) -> None:
        if (
            isinstance(response, KafkaError)
            and response.code is ErrorCode.UNSUPPORTED_VERSION
            and without_envelopes is not None
        ):
            instead = without_envelopes()
            if isinstance(instead, Parked):
                instead.attach(complete)
            else:
                complete(instead)
            return
        complete(_answer(api, request, ctx, response))

    closes_max = None if without_envelopes is None else CLOSES_MAX
    controller.send(
        wrap(request, ctx), on_answer, timeout_ms=timeout_ms, purpose=FORWARD, closes_max=closes_max
    )
    return parked


def send_as_broker(
    controller: ControllerChannel, api: Api, request: Message, timeout_ms: float
) -> Parked:
    """Send a client's request, which this broker has authorized, to the active controller in the
    broker's own name."""
    parked = Parked()

    def on_answer(answer: Message | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            parked.complete(api.error_response(request, answer.code, answer.message))
        else:
            parked.complete(answer)

    controller.send(request, on_answer, timeout_ms=timeout_ms, purpose=AS_BROKER)
    return parked


def _answer(
    api: Api, request: Message, ctx: RequestContext, response: EnvelopeResponse | KafkaError
) -> Message | None:
    try:
        if isinstance(response, KafkaError):
            raise response
        return unwrap(response, ctx)
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # This broker may not forward requests; the client did nothing wrong.
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, NOT_TRUSTED)
        return api.error_response(request, error.code, error.message)
    except MalformedError as error:
        return api.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def timeout_of(request: Message, default_ms: float) -> float:
    """The timeout in the client's request, else the default. The client itself waits a little
    longer."""
    given = getattr(request, "timeout_ms", None)
    return float(given) if isinstance(given, int) and given > 0 else default_ms


def forwarded(api: Api) -> HandlerModule:
    """A handler module that forwards `api`. Its role is the broker."""

    def handle(request: Any, ctx: RequestContext, broker: Any) -> Parked:
        timeout_ms = timeout_of(request, broker.config.broker.request_timeout_ms)
        return forward(broker.controller, api, request, ctx, timeout_ms)

    return cast("HandlerModule", SimpleNamespace(API=api, handle=handle))
