"""Charges requests to client quotas when they are answered, and sets the throttle time of the answer.

Charged are the bytes of a Produce request, the record bytes of a Fetch or ShareFetch response to a consumer,
and the time that a handler took. Nodes' own requests are free. A longer throttle time that a handler or the
controller has set stays. Source: KIP-13, KIP-124, KIP-219; Kafka's ``RequestHandlerHelper``.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from barnabas.security.quotas.client_quotas import ClientQuotas
from barnabas.security.quotas.quota_table import FETCHED, PRODUCED, REQUEST_TIME
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.request import RequestContext
from barnabas.wire.schema import Message

WAIT_MS_MAX = 0x7FFFFFFF
REQUEST_WAIT_MS_MAX = 1000.0
"""Longest throttle time for request time; the rest of the debt is charged to the next request."""
EXEMPT = frozenset(
    (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ENVELOPE,
    )
)
PRODUCE, FETCH, SHARE_FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)


class ClientMeter:
    """Charges the clients of one listener."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def record_and_throttle_ms(
        self,
        ctx: RequestContext,
        request: Any,
        response: Message | None,
        request_bytes: int,
        spent_ms: float,
    ) -> float:
        """Charge one request. Returns the throttle time, in which its connection is not read; the response
        has it, too."""
        key = ctx.api_key
        if key in EXEMPT or (key == FETCH and is_follower(request)):
            return 0.0
        quotas, who, client_id = self._quotas, ctx.principal, ctx.client_id
        wait_ms = 0.0
        if key == PRODUCE:
            wait_ms = quotas.charge(PRODUCED, who, client_id, request_bytes)
        elif key in (FETCH, SHARE_FETCH):
            wait_ms = quotas.charge(FETCHED, who, client_id, record_bytes(response))
        if spent_ms and response is not None:
            spent = quotas.charge(REQUEST_TIME, who, client_id, spent_ms)
            wait_ms = max(wait_ms, min(spent, REQUEST_WAIT_MS_MAX))
        wait_ms = set_throttle_time(response, wait_ms)
        quotas.waits += wait_ms > 0
        return wait_ms

    def record_rest(self, ctx: RequestContext, request: Any, spent_ms: float) -> None:
        """Record the rest of a request's time, Kafka's time of network threads: the next request waits
        for it."""
        if ctx.api_key not in EXEMPT and not (ctx.api_key == FETCH and is_follower(request)):
            self._quotas.charge(REQUEST_TIME, ctx.principal, ctx.client_id, spent_ms)


class UnchargedMeter:
    """The meter of a listener that charges no requests: handlers set the throttle time themselves."""

    def record_and_throttle_ms(
        self,
        ctx: RequestContext,
        request: Any,
        response: Message | None,
        request_bytes: int,
        spent_ms: float,
    ) -> float:
        return set_throttle_time(response, 0.0)

    def record_rest(self, ctx: RequestContext, request: Any, spent_ms: float) -> None:
        pass


def set_throttle_time(response: Message | None, wait_ms: float) -> float:
    """Set the response's throttle time unless it has a longer one. Returns the longer one."""
    if response is None or "throttle_time_ms" not in response.__slots__:
        return min(wait_ms, WAIT_MS_MAX)
    reported: int = max(response.throttle_time_ms, min(ceil(wait_ms), WAIT_MS_MAX))  # type: ignore[attr-defined]
    response.throttle_time_ms = reported  # type: ignore[attr-defined]
    return float(reported)


def is_follower(request: FetchRequest) -> bool:
    """Whether a replica sent the request."""
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def record_bytes(response: Any) -> int:
    """The size of the records in a Fetch or ShareFetch response."""
    if response is None:
        return 0
    return sum(
        len(partition.records or ())
        for topic in response.responses
        for partition in topic.partitions
    )
