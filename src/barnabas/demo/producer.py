"""Sends rows with ``confluent-kafka``: idempotent, acks=all, each row with its number as key.

Counts acknowledged rows, records the longest pause between acknowledgements, and when a partition
acknowledged a row that was sent after a given one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

TOPIC = "flights"
POLL_ROWS = 200
FLUSH_S = 120.0


@dataclass(slots=True)
class WatchedTopic:
    """The first acknowledgement, in one partition, of a row sent after `since_row`."""

    partition: int
    since_row: int
    acknowledged_at: float | None = None


class FlightProducer:
    """Sends rows at up to `rate` per second. Times are ``time.monotonic`` seconds."""

    def __init__(self, access: Mapping[str, str], rate: float) -> None:
        """`access`: librdkafka's settings of the cluster."""
        self.rate = rate
        self.sent = 0
        self.acknowledged = 0
        self.errors: list[str] = []
        self.longest_pause_s = 0.0
        self.watched: WatchedTopic | None = None
        self._last_ack = 0.0
        self._began = 0.0
        self._producer = Producer(
            {
                **access,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "lz4",
                "error_cb": self._on_client_error,
                "log_level": 0,
            }
        )

    def _on_client_error(self, error: KafkaError) -> None:
        """Keep fatal errors only: librdkafka reconnects by itself."""
        if error.fatal():
            self.errors.append(str(error))

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        if error is not None:
            self.errors.append(f"row {message.key()!r}: {error}")
            return
        self.acknowledged += 1
        self.longest_pause_s = max(self.longest_pause_s, now - self._last_ack)
        self._last_ack = now
        watched = self.watched
        if (
            watched is not None
            and watched.acknowledged_at is None
            and message.partition() == watched.partition
            and int(message.key() or b"-1") >= watched.since_row
        ):
            watched.acknowledged_at = now

    def send(self, row: int, value: bytes) -> None:
        """Queue one row; waits if the client's queue is full or the rate is exceeded."""
        if not self.sent:
            self._began = self._last_ack = time.monotonic()
        while True:
            try:
                self._producer.produce(
                    TOPIC, value=value, key=b"%d" % row, on_delivery=self._on_delivery
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        if self.sent % POLL_ROWS == 0:
            ahead_s = self.sent / self.rate - (time.monotonic() - self._began)
            self._producer.poll(max(ahead_s, 0.0))
            self._keep_pace()

    def _keep_pace(self) -> None:
        """Serve events until the pace allows another record; `poll` returns at the first event."""
        while True:
            ahead_s = self.sent / self.rate - (time.monotonic() - self._began)
            if ahead_s <= 0:
                return
            self._producer.poll(ahead_s)

    def wait_for(self, condition: Callable[[], Any], timeout_s: float) -> bool:
        """Serve acknowledgements until `condition` is true; returns whether it was in time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._producer.poll(0.02)
        return True

    def flush(self) -> int:
        """Wait until all rows are acknowledged; returns the number of those that are not."""
        return int(self._producer.flush(FLUSH_S))
