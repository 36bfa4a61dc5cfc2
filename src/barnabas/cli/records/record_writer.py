"""Sends the records of a command, and says how many were acknowledged: one by one, or all or none of them.

With a transactional id they are one transaction: it is committed at the end, and aborted where anything
fails before. Records that wait for acknowledgements take at most `BUFFER_BYTES_MAX`.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from barnabas.cli.plain_text import counted, say
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.host.client import BUFFER_BYTES_MAX, Connected
from barnabas.wire.errors import KafkaError


class RecordWriter:
    """Use it in ``with``: the end flushes or commits, an exception flushes or aborts."""

    def __init__(
        self, connected: Connected, settings: ProducerSettings, transactional_id: str | None = None
    ) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.failure: Exception | None = None
        """The first one of a record."""
        self._connected = connected
        self._longest_s = settings.delivery_timeout_ms / 1000
        self._waiting_bytes = 0
        self._plain: Producer | None = None
        self._transaction: TransactionalProducer | None = None
        if transactional_id is None:
            self._plain = Producer(connected.client, settings)
        else:
            self._transaction = TransactionalProducer(connected.client, transactional_id, settings)

    def __enter__(self) -> Self:
        if self._transaction is not None:
            self._connected.call(self._transaction.init())
            self._transaction.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()
        elif self._transaction is not None:
            self._abort()
        elif kind is not KeyboardInterrupt:
            with suppress(KafkaError, ChannelError):  # `error` is what the user must know
                self.finish()

    def _abort(self) -> None:
        """Abort the transaction, if there is one. If that fails, its time-out ends it."""
        if self._transaction is not None:
            with suppress(KafkaError, ChannelError):
                self._connected.call(self._transaction.abort())

    def send(self, record: ProducerRecord) -> None:
        """Take a record; wait where too many bytes are not acknowledged."""
        size = record.size
        self.sent += 1
        self._waiting_bytes += size

        def on_done(outcome: TaskOutcome[Delivery]) -> None:
            self._waiting_bytes -= size
            try:
                outcome.result()
            except Exception as error:  # noqa: BLE001 - kept for the caller
                self.failure = self.failure or error
            else:
                self.acknowledged += 1

        outcome = self._sent(record)
        outcome.when_done(on_done)
        if self._waiting_bytes > BUFFER_BYTES_MAX:
            with suppress(KafkaError, ChannelError):  # `on_done` keeps it
                self._connected.wait(outcome)

    def _sent(self, record: ProducerRecord) -> TaskOutcome[Delivery]:
        if self._plain is not None:
            return self._plain.send(record)
        assert self._transaction is not None
        return self._transaction.send(record)

    def _say_what_waits(self) -> None:
        left = self.sent - self.acknowledged
        text = f"{counted(left, 'record')} not acknowledged yet: trying for up to"
        say(f"{text} {self._longest_s:.0f} seconds", err=True)

    def finish(self) -> None:
        """Wait for all acknowledgements; commit. Raises the first failure."""
        if self._plain is not None:
            self._connected.call(self._plain.flush(), self._say_what_waits)
            if self.failure is not None:
                raise self.failure
            return
        assert self._transaction is not None
        try:
            if self.failure is not None:
                raise self.failure
            self._connected.call(self._transaction.commit())
        except (KafkaError, ChannelError):
            self._abort()
            raise
