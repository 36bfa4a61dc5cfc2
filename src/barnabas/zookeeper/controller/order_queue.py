"""The orders that one incarnation of a broker has not received yet, and whether one is on its way.

IDLE → (an order is sent) SENT → (the broker has answered) IDLE, or → (it could not be sent, or was refused)
WAITING → (the delay is over) IDLE. CLOSED is the end: the broker is gone, registered again, or this node is
controller no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Protocol

from barnabas.ports import Wakeup, Wakeups
from barnabas.types import Endpoint, Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.order_requests import Key, Removed

Stopped = tuple[str, int]


class QueueState(Enum):
    """The state of one queue. At most one order is on its way to a broker."""

    IDLE = "idle"
    """Nothing is queued: what is queued is sent in the same turn."""
    SENT = "sent"
    WAITING = "waiting"
    """The last order failed, and is queued again; the delay before the next one is not over."""
    CLOSED = "closed"


QUEUE_MOVES: Mapping[QueueState, frozenset[QueueState]] = {
    QueueState.IDLE: frozenset({QueueState.SENT, QueueState.WAITING, QueueState.CLOSED}),
    QueueState.SENT: frozenset({QueueState.IDLE, QueueState.CLOSED}),
    QueueState.WAITING: frozenset({QueueState.IDLE, QueueState.CLOSED}),
    QueueState.CLOSED: frozenset(),
}
"""An answer leads to IDLE; if it is a refusal, from there to WAITING within the same turn."""


class OrderSender(Protocol):
    """The part of :class:`barnabas.client.network.channels.Channels` that carries orders."""

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[Any], None],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None: ...

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None: ...

    def watch(
        self,
        target: Endpoint,
        *,
        on_closed: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> Callable[[], None]: ...


class OrderQueue:
    """The queue of one incarnation of a broker."""

    def __init__(self, broker: int, epoch: int, endpoint: Endpoint) -> None:
        self.broker = broker
        self.epoch = epoch
        self.endpoint = endpoint
        self.state = QueueState.IDLE
        self.leader_and_isr: dict[Key, bool] = {}
        """Partitions for LeaderAndIsr. True: the broker is a new replica, and may make its log even while
        one of its directories is offline."""
        self.metadata: dict[Key, None] = {}
        self.removed: dict[Uuid, Removed] = {}
        self.stopped: dict[Stopped, None] = {}
        self.brokers_changed = True
        """Whether it has to learn which brokers are alive."""
        self.begun = False
        """Whether its first UpdateMetadata was sent."""
        self._retry: Wakeup | None = None
        """Armed in state WAITING only."""
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def size(self) -> int:
        """How many partitions are queued."""
        return len(self.metadata) + len(self.leader_and_isr) + len(self.stopped)

    def validate(self) -> None:
        """Raises AssertionError where an order waits and nothing will send it."""
        assert (self._retry is not None) == (self.state is QueueState.WAITING), repr(self)
        if self.state is QueueState.IDLE:
            is_empty = not (self.size or self.removed or self.brokers_changed)
            assert self.begun and is_empty, f"{self!r} has orders that nothing will send"

    def watch(self, sender: OrderSender, on_ended: Callable[[], None]) -> None:
        """Call `on_ended` where the broker closes or refuses a connection, until `close`."""
        self._unwatch = sender.watch(self.endpoint, on_closed=on_ended, on_refused=on_ended)

    def on_sent(self) -> None:
        self._become(QueueState.SENT)

    def on_answer(self) -> bool:
        """The order was answered, or could not be sent; False where that is of no interest any more."""
        if self.state is QueueState.CLOSED:
            return False
        self._become(QueueState.IDLE)
        return True

    def wait(self, wakeups: Wakeups, at_ms: float, then: Callable[[], None]) -> None:
        """Send nothing before `at_ms`; then call `then`."""
        self._become(QueueState.WAITING)
        self._retry = wakeups.call_at(at_ms, partial(self._on_due, then))

    def _on_due(self, then: Callable[[], None]) -> None:
        self._retry = None
        self._become(QueueState.IDLE)
        then()

    def close(self) -> None:
        """Nothing is sent to this incarnation any more."""
        self._become(QueueState.CLOSED)
        self._unwatch()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _become(self, state: QueueState) -> None:
        assert state in QUEUE_MOVES[self.state], f"{self!r} may not become {state}"
        self.state = state

    def __repr__(self) -> str:
        return f"OrderQueue({self.broker} in epoch {self.epoch}, {self.state.value}, {self.size} queued)"
