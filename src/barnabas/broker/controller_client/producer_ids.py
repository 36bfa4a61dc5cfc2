"""Producer ids, handed out from blocks that the controller allocates (KIP-730).

The broker asks for the next block when nine tenths of the present one are used, so that no producer waits.

Source: Kafka's ``RPCProducerIdManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.ports import call_all
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

PREFETCH_SHARE = 0.9
"""Share of a block that is used when the next one is requested."""
WAITING_MAX = 10_000
"""Requests that may wait for a block."""
OnId = Callable[[int | KafkaError], None]


class ProducerIds:
    """Allocates producer ids out of this broker's block, and fetches the next block from the controller."""

    def __init__(
        self, controller: ControllerChannel, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._prefetch_at = 0
        self._next_block: range | None = None
        self._is_requesting = False
        self._waiting: deque[OnId] = deque()

    def allocate(self, on_id: OnId) -> None:
        """Call `on_id` with an unused producer id: at once while the block has one, else when the next block
        arrives. If none arrives, or too many requests wait, it gets COORDINATOR_LOAD_IN_PROGRESS."""
        if self._next >= self._end and not self._use_next_block():
            if len(self._waiting) >= WAITING_MAX:
                message = f"{WAITING_MAX} requests wait for a producer id already"
                on_id(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message))
                return
            self._waiting.append(on_id)
            self._request_block()
            return
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_at and self._next_block is None:
            self._request_block()
        on_id(producer_id)

    def _use_next_block(self) -> bool:
        block, self._next_block = self._next_block, None
        if block is None:
            return False
        self._next, self._end = block.start, block.stop
        self._prefetch_at = block.start + int(len(block) * PREFETCH_SHARE)
        return True

    def _request_block(self) -> None:
        if self._is_requesting:
            return
        self._is_requesting = True
        self._controller.send(
            AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch()),
            self._on_block,
        )

    def _on_block(self, response: AllocateProducerIdsResponse | KafkaError) -> None:
        self._is_requesting = False
        if isinstance(response, KafkaError) or response.error_code:
            # Retriable for the client, as Kafka answers it.
            error = KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "the controller gave no block of producer ids",
            )
            waiting, self._waiting = self._waiting, deque()
            call_all(partial(on_id, error) for on_id in waiting)
            return
        start = response.producer_id_start
        self._next_block = range(start, start + response.producer_id_len)
        waiting, self._waiting = self._waiting, deque()
        call_all(partial(self.allocate, on_id) for on_id in waiting)

    def __repr__(self) -> str:
        return f"ProducerIds(next {self._next} of {self._end}, {len(self._waiting)} waiting)"
