"""A NoOpRecord where a broker in ZooKeeper mode reports an offset that is behind an idle log.

A broker of Kafka 3.9 that migrates counts batches where it should count records: after a batch of several
records it reports an offset below the last one, until the next batch. On an idle log a broker that shuts down
would wait for ever for what the others report. Kafka's controllers append a NoOpRecord every
``metadata.max.idle.interval.ms``. This controller appends one when it is needed: a heartbeat
that a broker sent after the log was idle for that interval has an offset below the last record's.

Source: Kafka 3.9's ``OffsetTrackingListener.handleCommit``; KIP-835.
"""

from __future__ import annotations

from barnabas.controller.brokers.broker_sessions import BrokerSession
from barnabas.controller.decision import Decision
from barnabas.controller.duties import DutyController
from barnabas.metadata.records.no_op_record import NoOpRecord

REASON = "a broker in ZooKeeper mode reports an offset that is behind an idle log"


class IdleRecords:
    """A duty of an active controller that migrates its cluster. An interval of 0 ms turns it off."""

    def __init__(self, controller: DutyController) -> None:
        self._controller = controller
        self._interval_ms = controller.config.int_value("metadata.max.idle.interval.ms")
        self._due_ms: float | None = None
        self._offset = -1
        """The offset of the last record."""
        self._idle_since_ms = 0.0
        """When the log was first seen to end at that offset."""

    def on_activation(self) -> None:
        if self._interval_ms:
            self._due_ms = self._controller.now_ms() + self._interval_ms
            self._controller.arm(self._due_ms)

    def clear(self) -> None:
        self._due_ms = None

    def deadline_ms(self) -> float | None:
        return self._due_ms

    def on_time(self, now_ms: float) -> None:
        if self._due_ms is None or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + self._interval_ms
        controller = self._controller
        if controller.image.offset != self._offset:
            self._offset, self._idle_since_ms = controller.image.offset, now_ms
        elif any(map(self._is_behind, controller.sessions)):
            controller.commit(Decision(None, [NoOpRecord()], REASON))

    def _is_behind(self, session: BrokerSession) -> bool:
        known = self._controller.image.brokers.get(session.broker)
        return (
            known is not None
            and known.is_on_zookeeper
            and session.metadata_offset < self._offset
            and session.last_contact_ms >= self._idle_since_ms + self._interval_ms
        )
