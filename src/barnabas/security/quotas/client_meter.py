"""What a listener's requests use: charged when they are answered, told in the answer.

Bytes of a Produce request, records of a Fetch response to a consumer, and the time that a handler took.
Nodes' own requests are free. An answer that a handler or the controller has given a throttle time keeps it
where it is the longest. Source: KIP-13, KIP-124, KIP-219; Kafka's ``RequestHandlerHelper``.
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
"""A wait for request time is at most this; what is left of the debt is the next request's."""
EXEMPT = frozenset(
    (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ENVELOPE,
    )
)
PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)


class ClientMeter:
    """Charges what clients of one listener use."""

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
        """Charge one request; returns how long its connection is not read, which the response says."""
        key = ctx.api_key
        if key in EXEMPT or (key == FETCH and is_follower(request)):
            return 0.0
        quotas, who, client_id = self._quotas, ctx.principal, ctx.client_id
        wait_ms = 0.0
        if key == PRODUCE:
            wait_ms = quotas.charge(PRODUCED, who, client_id, request_bytes)
        elif key == FETCH:
            wait_ms = quotas.charge(FETCHED, who, client_id, record_bytes(response))
        if spent_ms and response is not None:
            spent = quotas.charge(REQUEST_TIME, who, client_id, spent_ms)
            wait_ms = max(wait_ms, min(spent, REQUEST_WAIT_MS_MAX))
        wait_ms = set_throttle_time(response, wait_ms)
        quotas.waits += wait_ms > 0
        return wait_ms


class ToldMeter:
    """A listener whose requests are not charged: its handlers say themselves how long a client waits."""

    def record_and_throttle_ms(
        self,
        ctx: RequestContext,
        request: Any,
        response: Message | None,
        request_bytes: int,
        spent_ms: float,
    ) -> float:
        return set_throttle_time(response, 0.0)


def set_throttle_time(response: Message | None, wait_ms: float) -> float:
    """Put the wait into the response, or read a longer one from it."""
    if response is None or "throttle_time_ms" not in response.__slots__:
        return min(wait_ms, WAIT_MS_MAX)
    reported: int = max(response.throttle_time_ms, min(ceil(wait_ms), WAIT_MS_MAX))  # type: ignore[attr-defined]
    response.throttle_time_ms = reported  # type: ignore[attr-defined]
    return float(reported)


def is_follower(request: FetchRequest) -> bool:
    """Whether a replica sends it."""
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def record_bytes(response: Any) -> int:
    """The size of the records in a Fetch response."""
    if response is None:
        return 0
    return sum(
        len(partition.records or ())
        for topic in response.responses
        for partition in topic.partitions
    )
