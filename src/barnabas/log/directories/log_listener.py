"""The reports of the upkeep of logs, for the replicas, which are built on the logs and listen to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.log.errors import CorruptLogError
from barnabas.types import TopicPartition


def _ignore(*_: object) -> None:
    """Without replicas nothing follows from it."""


class LogListener(NamedTuple):
    """Callbacks of the user of the logs."""

    on_corrupt: Callable[[TopicPartition, CorruptLogError], None] = _ignore
    """The upkeep came upon a corrupt batch."""
    on_flushed: Callable[[TopicPartition], None] = _ignore
    """The written end of a log with ``flush.messages`` moved, or will not move any more."""
    on_start_moved: Callable[[TopicPartition], None] = _ignore
    """Retention deleted segments of the log."""


class LogEvents:
    """Passes reports on to the listener. Made before the logs; the listener comes when it is built."""

    def __init__(self) -> None:
        self._listener = LogListener()

    def listen(self, listener: LogListener) -> None:
        """Report to `listener` from now on. There is one per broker."""
        self._listener = listener

    def corrupt(self, partition: TopicPartition, fault: CorruptLogError) -> None:
        self._listener.on_corrupt(partition, fault)

    def flushed(self, partition: TopicPartition) -> None:
        self._listener.on_flushed(partition)

    def start_moved(self, partition: TopicPartition) -> None:
        self._listener.on_start_moved(partition)
