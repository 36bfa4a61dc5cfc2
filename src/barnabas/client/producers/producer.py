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

from contextlib import suppress

from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.identity import new_identity
from barnabas.client.producers.produce_requests import (
    ACCEPTED,
    IDENTITY_LOST,
    answers_of,
    produce_request,
)
from barnabas.client.producers.record_accumulator import (
    SEQUENCE_MASK,
    Lane,
    ProducerBatch,
    ProducerSettings,
    RecordAccumulator,
)
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.client.transactions import ClientTransaction
from barnabas.ports import Wakeup
from barnabas.record.builder import build_batch
from barnabas.types import Buffer, Endpoint, new_tuple
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.produce_request import ProduceRequest
from barnabas.wire.messages.produce_response import ProduceResponse

__all__ = ["Producer", "ProducerSettings"]

SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The broker does not know what was acknowledged before."""


class Producer:
    """Writes records of any topics. `send` gives an outcome; `close` after `flush`."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings | None = None,
        transaction: ClientTransaction | None = None,
    ) -> None:
        self.settings = settings = settings or ProducerSettings()
        self._client = client
        self._idempotent = settings.idempotent and settings.acks == -1
        """Whether sequences are kept: a record that one leader alone acknowledged and lost would be a gap
        in them."""
        self._transaction = transaction
        self._records = RecordAccumulator(client, settings)
        self._lanes = self._records.lanes
        self._producer_id = self._epoch = -1
        self._asking_id = self._asking_metadata = False
        self._stale: set[str] = set()
        self._flushing = 0
        """How many wait in `flush`: nothing lingers meanwhile."""
        self._wakeup: Wakeup | None = None
        self._run_is_due = False
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

    # -- the pump --------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Run once after the present turn: what is sent in one turn goes together."""
        if not self._run_is_due:
            self._run_is_due = True
            self._client.ports.wakeups.call_soon(self._run_once)

    def _run_once(self) -> None:
        self._run_is_due = False
        now_ms = self._client.now_ms()
        self._stale.update(self._records.route_waiting(now_ms))
        self._expire(now_ms)
        if not self._records:
            return
        if self._idempotent and self._producer_id < 0 and self._transaction is None:
            self._ask_id()
        else:
            self._dispatch(now_ms)
        if self._stale and not self._asking_metadata:
            self._asking_metadata = True
            self._client.tasks.start(self._refresh())
        self._arm(now_ms)

    def _dispatch(self, now_ms: float) -> None:
        by_leader: dict[int, list[ProducerBatch]] = {}
        for partition, lane in self._lanes.items():
            if lane.in_flight or not lane.batches or not self._is_due(lane, now_ms):
                continue
            if self._transaction is not None and not self._transaction.admits(partition):
                continue
            leader = self._client.cluster.leader(partition)
            if leader is None:
                self._stale.add(partition.topic)
                continue
            if not self._client.cluster.is_fresh(partition.topic):
                self._stale.add(partition.topic)  # there may be more partitions by now
            by_leader.setdefault(leader, []).append(lane.batches[0])
        for leader in sorted(by_leader):
            request: list[ProducerBatch] = []
            size = 0
            for batch in by_leader[leader]:
                if request and size + batch.size > self.settings.request_bytes_max:
                    self._start_request(leader, request)
                    request, size = [], 0
                request.append(batch)
                size += batch.size
            self._start_request(leader, request)

    def _is_due(self, lane: Lane, now_ms: float) -> bool:
        head = lane.batches[0]
        if head.attempts:
            return head.retry_at_ms <= now_ms
        return bool(
            self._flushing
            or len(lane.batches) > 1
            or head.size >= self.settings.batch_bytes
            or head.linger_until_ms <= now_ms
        )

    def _start_request(self, leader: int, batches: list[ProducerBatch]) -> None:
        for batch in batches:
            lane = self._lanes[batch.partition]
            lane.in_flight = True
            if batch.attempts == 0:
                self._records.move_on(batch.partition)
                if self._idempotent:
                    batch.producer_id, batch.epoch = self._producer_id, self._epoch
                    batch.sequence = lane.next_sequence
                    lane.next_sequence += len(batch.records)
                    lane.next_sequence &= SEQUENCE_MASK
            batch.attempts += 1
        self._client.tasks.start(self._deliver(leader, batches))

    def _arm(self, now_ms: float) -> None:
        times = self._records.waiting_deadlines()
        for lane in self._lanes.values():
            if not lane.batches or lane.in_flight:
                continue
            head = lane.batches[0]
            times.append(head.deadline_ms)
            at = head.retry_at_ms if head.attempts else head.linger_until_ms
            if at > now_ms:
                times.append(at)
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if times:
            self._wakeup = self._client.ports.wakeups.call_at(min(times), self.wakeup)

    def _expire(self, now_ms: float) -> None:
        # A callback that learns of it may send at once, to other partitions too.
        while late := [
            lane
            for lane in self._lanes.values()
            if lane.batches and not lane.in_flight and lane.batches[0].deadline_ms <= now_ms
        ]:
            for lane in late:
                batch = lane.batches[0]
                text = f"no acknowledgement for {batch.partition} in time"
                self._fail(lane, batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))

    # -- identity and metadata -------------------------------------------------------------------

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

    async def _refresh(self) -> None:
        topics = sorted(self._stale)
        self._stale.clear()
        try:
            await self._client.cluster.refresh(topics)
        except ChannelError as error:
            self._client.ports.log("debug", "producer.no_metadata", error=str(error))
        known = self._client.cluster.topics
        if any(t not in known or not known[t].partitions or self._leaderless(t) for t in topics):
            await self._client.tasks.sleep(self.settings.retry_backoff_ms)
        self._asking_metadata = False
        self.wakeup()

    def _leaderless(self, topic: str) -> bool:
        leader = self._client.cluster.leader
        return any(
            partition.topic == topic and lane.batches and leader(partition) is None
            for partition, lane in self._lanes.items()
        )

    # -- requests --------------------------------------------------------------------------------

    async def _deliver(self, leader: int, batches: list[ProducerBatch]) -> None:
        try:
            request = self._request(batches)
        except Exception as error:  # noqa: BLE001 - of no bytes, no text, no date: what send() took unseen
            if len(batches) > 1:
                for batch in batches:
                    self._client.tasks.start(self._deliver(leader, [batch]))
                return
            refused = KafkaError(ErrorCode.INVALID_RECORD, f"it cannot be written: {error!r}")
            self._on_failure(batches[0], refused, moved=False)
            self.wakeup()
            return
        try:
            response = await self._client.ask_node(
                leader,
                request,
                timeout_ms=self.settings.request_timeout_ms,
                purpose="produce",
                at_most=None if self._transaction is None else self._transaction.produce_at_most,
            )
        except (ChannelError, KafkaError) as error:
            for batch in batches:
                self._on_failure(batch, error, moved=True)
        else:
            self._on_response(batches, response)
        self.wakeup()

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        transaction = self._transaction
        return produce_request(
            [(batch.partition, self._encoded(batch)) for batch in batches],
            self._client.cluster.topic_id,
            acks=self.settings.acks,
            timeout_ms=int(self.settings.request_timeout_ms),
            transactional_id=None if transaction is None else transaction.transactional_id,
        )

    def _encoded(self, batch: ProducerBatch) -> Buffer:
        return build_batch(
            batch.records,
            timestamp_ms=0,
            producer_id=batch.producer_id,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
            codec=self.settings.codec,
            transactional=self._transaction is not None,
        )

    def _on_response(self, batches: list[ProducerBatch], response: ProduceResponse | None) -> None:
        if response is None:  # acks=0
            for batch in batches:
                self._acknowledge(batch, -1, -1)
            return
        cluster = self._client.cluster
        endpoints = {n.node_id: Endpoint(n.host, n.port) for n in response.node_endpoints}
        answers = answers_of(response, cluster.name_of)
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the broker did not answer for it")
                self._on_failure(batch, gone, moved=True)
            elif answer.error_code in ACCEPTED:
                self._acknowledge(batch, answer.base_offset, answer.log_append_time_ms)
            else:
                error = KafkaError(code_of(answer.error_code), answer.error_message or "")
                news = answer.current_leader
                endpoint = endpoints.get(news.leader_id)
                found = cluster.learn_leader(
                    batch.partition, news.leader_id, news.leader_epoch, endpoint
                )
                self._on_failure(batch, error, moved=not found)

    def _acknowledge(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        self._remove(batch)
        topic, partition = batch.partition
        offset = max(base_offset, -1)
        for record, outcome in zip(batch.records, batch.outcomes, strict=True):
            stamp = log_append_time if log_append_time >= 0 else record[3] or -1
            try:
                outcome.resolve(new_tuple(Delivery, (topic, partition, offset, stamp)))
            except Exception as error:  # noqa: BLE001 - a watcher's fault must not stop the others
                self._client.tasks.on_lost(error)
            if base_offset >= 0:
                offset += 1

    def _on_failure(self, batch: ProducerBatch, error: Exception, *, moved: bool) -> None:
        """Retry what may succeed later, fail the rest."""
        lane = self._lanes[batch.partition]
        lane.in_flight = False
        now_ms = self._client.now_ms()
        if isinstance(error, KafkaError):
            retriable = error.retriable or error.code == ErrorCode.BROKER_NOT_AVAILABLE
        else:
            retriable = isinstance(error, ChannelError) and error.kind != "unsupported"
        too_large = isinstance(error, KafkaError) and error.code == ErrorCode.MESSAGE_TOO_LARGE
        if too_large and len(batch.records) > 1:
            self._split(lane, batch)
            return
        in_time = batch.deadline_ms > now_ms
        lost = isinstance(error, KafkaError) and error.code in SEQUENCE_LOST
        first_of_its_own = batch.attempts == 1 and self._transaction is None
        if lost and in_time and self._idempotent and first_of_its_own:
            # It was refused when it was first sent, so it is not in the log (KIP-360).
            batch.attempts = 0
            if batch.producer_id == self._producer_id:
                self._producer_id = -1
            return
        if not retriable or not in_time:
            self._fail(lane, batch, error)
            return
        if moved:
            self._stale.add(batch.partition.topic)
            batch.retry_at_ms = now_ms + self.settings.retry_backoff_ms
        else:
            batch.retry_at_ms = now_ms

    def _split(self, lane: Lane, batch: ProducerBatch) -> None:
        """The topic takes smaller batches only (``max.message.bytes``): two in place of one."""
        assert lane.batches.popleft() is batch
        halves = batch.halves()
        if batch.attempts == 1:  # else one of the attempts before may have written it
            for half in halves:
                half.attempts = 0
            if batch.sequence >= 0 and batch.producer_id == self._producer_id:
                lane.next_sequence = batch.sequence
        lane.batches.extendleft(reversed(halves))

    def _fail(self, lane: Lane, batch: ProducerBatch, error: Exception) -> None:
        self._remove(batch)
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

    def _remove(self, batch: ProducerBatch) -> None:
        lane = self._lanes[batch.partition]
        lane.in_flight = False
        assert lane.batches[0] is batch
        lane.batches.popleft()
        self._records.buffered_bytes -= batch.size

    def fail_idle(self, error: Exception) -> None:
        """Fail what is not in flight now; what is sent because of that has its own time."""
        if self._transaction is not None:
            self._records.drop_waiting(error)
        idle = [lane for lane in self._lanes.values() if not lane.in_flight]
        for batch in [batch for lane in idle for batch in lane.batches]:
            self._fail(self._lanes[batch.partition], batch, error)
