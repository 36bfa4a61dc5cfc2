"""A producer: batches per partition, in order, each acknowledged or failed once. Sans-IO.

Order and exactly-once: of one partition one batch is in flight at a time, and a batch keeps its
producer id, epoch and sequence through all retries, so that a broker which has it already says so
(KIP-98). A batch whose fate is unknown when its time is up, or that the broker finds out of
sequence when it is sent again, fails, and the producer takes a new id for what follows: nothing is
ever sent twice under two identities by this class. One that is out of sequence when it is first sent
is not in the log, and goes under a new id (KIP-360).

With a :class:`~barnabas.client.transactions.ClientTransaction` the id and epoch come from its coordinator,
and batches belong to it; a batch that fails spoils the transaction instead of the identity.

Retries what may succeed later until `delivery_timeout_ms`; learns new leaders from the refusal
itself (KIP-951) and from Metadata. While a batch is under way, the next one fills.

Source: Kafka's ``KafkaProducer``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.batch_sender import BatchSender, Lane, SendOptions
from barnabas.client.producers.identity import new_identity
from barnabas.client.producers.produce_requests import IDENTITY_LOST
from barnabas.client.producers.record_accumulator import (
    SEQUENCE_MASK,
    ProducerBatch,
    ProducerSettings,
    RecordAccumulator,
)
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.client.transactions import ClientTransaction
from barnabas.types import new_tuple
from barnabas.wire.errors import ErrorCode, KafkaError

__all__ = ["Producer", "ProducerSettings"]

SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The broker does not know what was acknowledged before."""


class Producer(BatchSender[ProducerBatch]):
    """Writes records of any topics. `send` gives an outcome; `close` after `flush`."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings | None = None,
        transaction: ClientTransaction | None = None,
    ) -> None:
        self.settings = settings = settings or ProducerSettings()
        timeout_ms = settings.request_timeout_ms
        super().__init__(
            client,
            SendOptions(
                settings.acks,
                int(timeout_ms),
                timeout_ms,
                settings.retry_backoff_ms,
                settings.request_bytes_max,
                None if transaction is None else transaction.transactional_id,
            ),
        )
        self._idempotent = settings.idempotent and settings.acks == -1
        """Whether sequences are kept: a record that one leader alone acknowledged and lost would be a gap
        in them."""
        self._transaction = transaction
        self._records = RecordAccumulator(client, settings, self._lanes)
        self._producer_id = self._epoch = -1
        self._asking_id = False
        self._flushing = 0
        """How many wait in `flush`: nothing lingers meanwhile."""
        self._closed = False
        """No more records are accepted; those accepted are still sent."""

    def __repr__(self) -> str:
        waiting = sum(len(lane.batches) for lane in self._lanes.values())
        return f"Producer(id={self._producer_id} batches={waiting} bytes={self.buffered_bytes})"

    @property
    def buffered_bytes(self) -> int:
        """Bytes taken and not yet acknowledged or failed."""
        return self._records.buffered_bytes

    # -- by the user -----------------------------------------------------------------------------

    def send(self, record: ProducerRecord) -> TaskOutcome[Delivery]:
        """Take a record; the outcome is its `Delivery`, or a `KafkaError` or `ChannelError`.

        After an error that leaves the fate open (a time-out) the record may be in the log.
        """
        refusal: Exception | None = None
        if self._closed:
            refusal = ChannelError("closed", "this producer is closed")
        elif self._transaction is not None:
            refusal = self._transaction.refusal
        if refusal is not None:
            failed: TaskOutcome[Delivery] = TaskOutcome()
            failed.reject(refusal)
            return failed
        self.wakeup()
        return self._records.add(record)

    async def flush(self) -> None:
        """Return when all that was sent so far is acknowledged or failed, whatever others send meanwhile;
        nothing lingers."""
        self._flushing += 1
        self.wakeup()
        try:
            for outcome in self._records.last_outcomes():
                with suppress(KafkaError, ChannelError):
                    await outcome
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """Take no more, and return when all that was taken is acknowledged or failed."""
        self._closed = True
        await self.flush()

    def take_identity(self, producer_id: int, epoch: int) -> None:
        """Take the id and epoch that the coordinator of its transactions gave; another one begins with
        sequence 0."""
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            for lane in self._lanes.values():
                lane.next_sequence = 0

    # -- what goes, and when ---------------------------------------------------------------------

    def _collect(self, now_ms: float) -> Iterable[str]:
        return self._records.route_waiting(now_ms)

    def _is_idle(self) -> bool:
        return not self._records

    def _may_send(self) -> bool:
        if self._idempotent and self._producer_id < 0 and self._transaction is None:
            self._ask_id()
            return False
        return True

    def _is_due(self, lane: Lane[ProducerBatch], now_ms: float) -> bool:
        head = lane.batches[0]
        if head.attempts:
            is_due = head.retry_at_ms <= now_ms
        else:
            is_due = bool(
                self._flushing
                or len(lane.batches) > 1
                or head.size >= self.settings.batch_bytes
                or head.linger_until_ms <= now_ms
            )
        return is_due and (self._transaction is None or self._transaction.admits(head.partition))

    def _due_at_ms(self, batch: ProducerBatch) -> float:
        return batch.linger_until_ms

    def _on_first_attempt(self, lane: Lane[ProducerBatch], batch: ProducerBatch) -> None:
        self._records.move_on(batch.partition)
        batch.transactional = self._transaction is not None
        if self._idempotent:
            batch.producer_id, batch.epoch = self._producer_id, self._epoch
            batch.sequence = lane.next_sequence
            lane.next_sequence += len(batch.records)
            lane.next_sequence &= SEQUENCE_MASK

    def _produce_at_most(self) -> int | None:
        return None if self._transaction is None else self._transaction.produce_at_most

    def _deadlines(self) -> list[float]:
        return self._records.waiting_deadlines()

    # -- identity --------------------------------------------------------------------------------

    def _ask_id(self) -> None:
        if not self._asking_id:
            self._asking_id = True
            self._client.tasks.start(self._init_producer_id())

    async def _init_producer_id(self) -> None:
        try:
            self._producer_id, self._epoch = await new_identity(
                self._client, timeout_ms=self.settings.delivery_timeout_ms
            )
        except (KafkaError, ChannelError) as error:
            self.fail_idle(error)
        else:
            for lane in self._lanes.values():
                lane.next_sequence = 0
        finally:
            self._asking_id = False
            self.wakeup()

    # -- what became of it -----------------------------------------------------------------------

    def _on_accepted(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        self._records.buffered_bytes -= batch.size
        topic, partition = batch.partition
        offset = max(base_offset, -1)
        for record, outcome in zip(batch.records, batch.outcomes, strict=True):
            stamp = append_time_ms if append_time_ms >= 0 else record[3] or -1
            try:
                outcome.resolve(new_tuple(Delivery, (topic, partition, offset, stamp)))
            except Exception as error:  # noqa: BLE001 - a watcher's fault must not stop the others
                self._client.tasks.on_lost(error)
            if base_offset >= 0:
                offset += 1

    def _takes_back(
        self, lane: Lane[ProducerBatch], batch: ProducerBatch, error: Exception, in_time: bool
    ) -> bool:
        code = error.code if isinstance(error, KafkaError) else None
        if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._split(lane, batch)
            return True
        first_of_its_own = batch.attempts == 1 and self._transaction is None
        if code in SEQUENCE_LOST and in_time and self._idempotent and first_of_its_own:
            # It was refused when it was first sent, so it is not in the log (KIP-360).
            batch.attempts = 0
            if batch.producer_id == self._producer_id:
                self._producer_id = -1
            return True
        return False

    def _split(self, lane: Lane[ProducerBatch], batch: ProducerBatch) -> None:
        """The topic takes smaller batches only (``max.message.bytes``): two in place of one."""
        assert lane.batches.popleft() is batch
        halves = batch.halves()
        if batch.attempts == 1:  # else one of the attempts before may have written it
            for half in halves:
                half.attempts = 0
            if batch.sequence >= 0 and batch.producer_id == self._producer_id:
                lane.next_sequence = batch.sequence
        lane.batches.extendleft(reversed(halves))

    def _on_failed(self, lane: Lane[ProducerBatch], batch: ProducerBatch, error: Exception) -> None:
        self._records.buffered_bytes -= batch.size
        lost = isinstance(error, KafkaError) and error.code in IDENTITY_LOST
        if self._transaction is not None:
            self._transaction.on_failed(error, sent=batch.attempts > 0)
        elif self._idempotent and batch.attempts and (lost or batch.sequence >= 0):
            # Its sequence numbers are now a gap: continue with a new producer id.
            self._producer_id = -1
        for outcome in batch.outcomes:
            try:
                outcome.reject(error)
            except Exception as fault:  # noqa: BLE001 - as above
                self._client.tasks.on_lost(fault)

    def fail_idle(self, error: Exception) -> None:
        """Fail what is not in flight now; what is sent because of that has its own time."""
        if self._transaction is not None:
            self._records.drop_waiting(error)
        idle = [lane for lane in self._lanes.values() if not lane.in_flight]
        for batch in [batch for lane in idle for batch in lane.batches]:
            self._fail(self._lanes[batch.partition], batch, error)
