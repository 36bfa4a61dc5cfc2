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
WAITING_MAX = 10_000
OnId = Callable[[int | KafkaError], None]


class ProducerIds:
    """This broker's blocks."""

    def __init__(
        self, controller: ControllerChannel, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._prefetch_at = 0
        self._following: range | None = None
        self._asking = False
        self._waiting: deque[OnId] = deque()

    def allocate(self, on_id: OnId) -> None:
        """Give `on_id` a fresh producer id, at once where one is left; or a `KafkaError`."""
        if self._next >= self._end and not self._begin_following():
            if len(self._waiting) >= WAITING_MAX:
                on_id(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "too many wait for ids"))
                return
            self._waiting.append(on_id)
            self._ask()
            return
        given = self._next
        self._next += 1
        if self._next >= self._prefetch_at and self._following is None:
            self._ask()
        on_id(given)

    def _begin_following(self) -> bool:
        block, self._following = self._following, None
        if block is None:
            return False
        self._next, self._end = block.start, block.stop
        self._prefetch_at = block.start + int(len(block) * PREFETCH_SHARE)
        return True

    def _ask(self) -> None:
        if self._asking:
            return
        self._asking = True
        self._controller.send(
            AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch()),
            self._on_block,
        )

    def _on_block(self, response: AllocateProducerIdsResponse | KafkaError) -> None:
        self._asking = False
        if isinstance(response, KafkaError) or response.error_code:
            # Retriable for the client, as Kafka answers it.
            error = KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block of producer ids could be had"
            )
            waiting, self._waiting = self._waiting, deque()
            call_all(partial(on_id, error) for on_id in waiting)
            return
        start = response.producer_id_start
        self._following = range(start, start + response.producer_id_len)
        waiting, self._waiting = self._waiting, deque()
        call_all(partial(self.allocate, on_id) for on_id in waiting)

    def __repr__(self) -> str:
        return f"ProducerIds(next {self._next} of {self._end}, {len(self._waiting)} waiting)"
