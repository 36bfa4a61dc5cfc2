"""The reports of the upkeep of logs, for the parts of a broker that are built on the logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.log.errors import CorruptLogError
from barnabas.types import TopicPartition


def _ignore(*_: object) -> None:
    """Without replicas nothing follows from it."""


class LogListener(NamedTuple):
    """Callbacks of one user of the logs."""

    on_corrupt: Callable[[TopicPartition, CorruptLogError], None] = _ignore
    """The upkeep came upon a corrupt batch."""
    on_flushed: Callable[[TopicPartition], None] = _ignore
    """The written end of a log with ``flush.messages`` moved, or will not move any more."""
    on_start_moved: Callable[[TopicPartition], None] = _ignore
    """Retention deleted segments of the log."""


class LogEvents:
    """Passes reports on to the listeners. Made before the logs; a listener comes when it is built."""

    def __init__(self) -> None:
        self._listeners: list[LogListener] = []

    def listen(self, listener: LogListener) -> None:
        """Report to `listener` as well from now on."""
        self._listeners.append(listener)

    def corrupt(self, partition: TopicPartition, fault: CorruptLogError) -> None:
        """A read came upon a corrupt batch."""
        for listener in self._listeners:
            listener.on_corrupt(partition, fault)

    def flushed(self, partition: TopicPartition) -> None:
        for listener in self._listeners:
            listener.on_flushed(partition)

    def start_moved(self, partition: TopicPartition) -> None:
        for listener in self._listeners:
            listener.on_start_moved(partition)
