"""The identity of an idempotent producer: a producer id with its epoch (KIP-98)."""

from __future__ import annotations

from barnabas.client.client import API_TIMEOUT_MS, Client, raise_for
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse

UNUSED_TIMEOUT_MS = 60_000
"""The time-out of transactions, which such a producer has none of."""


async def new_identity(client: Client, *, timeout_ms: float = API_TIMEOUT_MS) -> tuple[int, int]:
    """A fresh (producer id, producer epoch). Raises `KafkaError`, `ChannelError`."""
    response: InitProducerIdResponse = await client.ask_any(
        lambda: InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=UNUSED_TIMEOUT_MS
        ),
        lambda answer: raise_for(answer.error_code, "no producer id was given"),
        timeout_ms=timeout_ms,
    )
    return response.producer_id, response.producer_epoch
