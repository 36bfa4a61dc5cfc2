"""Chooses the partition of each record and collects records into batches. Sans-IO.

One lane per partition has its batches in order. The key of a record chooses its partition; records without
a key go to one partition until its batch is full or sent (KIP-480, KIP-794). While a topic is unknown its
records wait, in order, until their delivery time-out.

:class:`barnabas.client.producers.producer.Producer` sends the batches.

Source: Kafka's ``RecordAccumulator``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from barnabas.client.client import Client
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.batch_sender import Lane, OutgoingBatch
from barnabas.client.records import Delivery, ProducerRecord, partition_for
from barnabas.record.builder import build_batch
from barnabas.record.compression import Codec
from barnabas.record.decode import Headers
from barnabas.types import Buffer, TopicPartition, new_tuple
from barnabas.wire.errors import ErrorCode, KafkaError

SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of a producer, named like Kafka's."""

    acks: int = -1
    idempotent: bool = True
    """Has an effect only if `acks` is -1 (all)."""
    linger_ms: float = 5.0
    batch_bytes: int = 512 * 1024
    """A batch with this many bytes is sent without waiting for `linger_ms`."""
    codec: Codec = Codec.NONE
    request_timeout_ms: float = 30_000.0
    delivery_timeout_ms: float = 120_000.0
    retry_backoff_ms: float = 50.0
    request_bytes_max: int = 1024 * 1024


class ProducerBatch(OutgoingBatch):
    """Records of one partition that are sent as one batch."""

    __slots__ = (
        "_settings", "epoch", "linger_until_ms", "outcomes", "producer_id", "records", "sequence",
        "transactional",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, now_ms: float, settings: ProducerSettings
    ) -> None:
        super().__init__(partition, 0, now_ms + settings.delivery_timeout_ms)
        self.records: list[tuple[bytes | None, bytes | None, Headers, int | None]] = []
        self.outcomes: list[TaskOutcome[Delivery]] = []
        self.linger_until_ms = now_ms + settings.linger_ms
        self.producer_id = self.epoch = self.sequence = -1
        self.transactional = False
        self._settings = settings

    def encoded(self) -> Buffer:
        """Raises `KafkaError` where a record has no bytes, no text or no date: `add` takes it unseen."""
        try:
            return build_batch(
                self.records,
                timestamp_ms=0,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
                codec=self._settings.codec,
                transactional=self.transactional,
            )
        except Exception as error:
            text = f"it cannot be written: {error!r}"
            raise KafkaError(ErrorCode.INVALID_RECORD, text) from error

    def add(self, record: ProducerRecord, size: int, timestamp_ms: int) -> TaskOutcome[Delivery]:
        outcome: TaskOutcome[Delivery] = TaskOutcome()
        self.records.append((record.key, record.value, record.headers, timestamp_ms))
        self.outcomes.append(outcome)
        self.size += size
        return outcome

    def halves(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Two batches that replace this one, each with half of the records and their sequence numbers."""
        middle = len(self.records) // 2
        first, second = copy(self), copy(self)
        first.records, second.records = self.records[:middle], self.records[middle:]
        first.outcomes, second.outcomes = self.outcomes[:middle], self.outcomes[middle:]
        first.size = self.size // 2  # approximate, but the sum is exact
        second.size = self.size - first.size
        if self.sequence >= 0:
            second.sequence = self.sequence + middle & SEQUENCE_MASK
        return first, second


class RecordAccumulator:
    """All lanes of one producer; true while it has records."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings,
        lanes: dict[TopicPartition, Lane[ProducerBatch]],
    ) -> None:
        self.lanes = lanes
        self.buffered_bytes = 0
        self._client = client
        self._settings = settings
        self._rng = client.ports.rng("client.producer")
        self._unrouted: dict[
            str, list[tuple[ProducerRecord, int, TaskOutcome[Delivery], float]]
        ] = {}
        self._sticky: dict[str, TopicPartition] = {}

    def __bool__(self) -> bool:
        if self._unrouted:
            return True
        for lane in self.lanes.values():  # noqa: SIM110 - a generator costs more than the few lanes
            if lane.batches:
                return True
        return False

    def add(self, record: ProducerRecord) -> TaskOutcome[Delivery]:
        """Add a record to its partition's last batch; if its topic is unknown, the record waits."""
        now_ms = self._client.now_ms()
        stamp = record.timestamp_ms
        if stamp is None:
            stamp = self._client.ports.clock.wall_ms()
        size = record.size
        self.buffered_bytes += size
        partition = None if record.topic in self._unrouted else self._route(record)
        if partition is not None:
            return self._append(partition, record, size, stamp, now_ms)
        outcome: TaskOutcome[Delivery] = TaskOutcome()
        deadline_ms = now_ms + self._settings.delivery_timeout_ms
        self._unrouted.setdefault(record.topic, []).append((record, stamp, outcome, deadline_ms))
        return outcome

    def move_on(self, partition: TopicPartition) -> None:
        """A batch of `partition` was sent or is full: choose another partition for records without a key."""
        if self._sticky.get(partition.topic) == partition:
            del self._sticky[partition.topic]

    def last_outcomes(self) -> list[TaskOutcome[Delivery]]:
        """The outcomes to wait for until all current records are done: a lane's batches end in order, so the
        last of each lane, and all records that wait for a topic."""
        last = [lane.batches[-1].outcomes[-1] for lane in self.lanes.values() if lane.batches]
        return last + [waits[2] for waiting in self._unrouted.values() for waits in waiting]

    def drop_waiting(self, error: Exception) -> None:
        """Fail the records whose topics are unknown."""
        waiting, self._unrouted = self._unrouted, {}
        for record, _, outcome, _ in (waits for some in waiting.values() for waits in some):
            self.buffered_bytes -= record.size
            self._reject(outcome, error)

    def _reject(self, outcome: TaskOutcome[Delivery], error: Exception) -> None:
        try:
            outcome.reject(error)
        except Exception as fault:  # noqa: BLE001 - a watcher's fault must not stop the others
            self._client.tasks.on_lost(fault)

    def waiting_deadlines(self) -> list[float]:
        """The delivery deadline of the first record of each unknown topic."""
        if not self._unrouted:
            return []
        return [waiting[0][3] for waiting in self._unrouted.values()]

    def route_waiting(self, now_ms: float) -> list[str]:
        """Add records that waited for their topic to batches; fail those past their deadline. Returns the
        topics that are still unknown."""
        if not self._unrouted:
            return []
        for topic in list(self._unrouted):
            waiting = self._unrouted.pop(topic)
            for index, (record, stamp, outcome, deadline_ms) in enumerate(waiting):
                partition = self._route(record)
                if partition is None and now_ms < deadline_ms:
                    # A callback of a record that timed out may have sent it again.
                    self._unrouted[topic] = waiting[index:] + self._unrouted.get(topic, [])
                    break
                self._complete_record(record, partition, stamp, outcome, now_ms)
        return list(self._unrouted)

    def _route(self, record: ProducerRecord) -> TopicPartition | None:
        """The partition of a record; None while its topic is unknown."""
        name, key = record.topic, record.key
        if record.partition is not None:
            return new_tuple(TopicPartition, (name, record.partition))
        topic = self._client.cluster.topics.get(name)
        if topic is None or not topic.partitions:
            return None
        if key is not None:
            partition = partition_for(key, len(topic.partitions))
            return new_tuple(TopicPartition, (name, partition))
        sticky = self._sticky.get(name)
        if sticky is None:
            led = [index for index, view in sorted(topic.partitions.items()) if view.leader >= 0]
            chosen = self._rng.choice(led or sorted(topic.partitions))
            sticky = self._sticky[name] = TopicPartition(name, chosen)
        return sticky

    def _append(
        self,
        partition: TopicPartition,
        record: ProducerRecord,
        size: int,
        stamp: int,
        now_ms: float,
    ) -> TaskOutcome[Delivery]:
        lane = self.lanes.get(partition)
        if lane is None:
            lane = self.lanes[partition] = Lane()
        batches = lane.batches
        open_batch = batches[-1] if batches and batches[-1].attempts == 0 else None
        if open_batch is None:
            open_batch = self._begin(partition, now_ms)
        elif open_batch.size + size > self._settings.batch_bytes:
            open_batch = self._next_batch(partition, record, size, now_ms)
        return open_batch.add(record, size, stamp)

    def _begin(self, partition: TopicPartition, now_ms: float) -> ProducerBatch:
        batch = ProducerBatch(partition, now_ms, self._settings)
        self.lanes.setdefault(partition, Lane()).batches.append(batch)
        return batch

    def _next_batch(
        self, partition: TopicPartition, record: ProducerRecord, size: int, now_ms: float
    ) -> ProducerBatch:
        """The batch for a record that does not fit into the last batch of `partition`. A record without a key
        goes to another partition, into its open batch if there is room."""
        if record.key is None and record.partition is None:
            self.move_on(partition)
            partition = self._route(record) or partition
            batches = self.lanes.setdefault(partition, Lane()).batches
            if batches and batches[-1].attempts == 0:
                if batches[-1].size + size <= self._settings.batch_bytes:
                    return batches[-1]
        return self._begin(partition, now_ms)

    def _complete_record(
        self,
        record: ProducerRecord,
        partition: TopicPartition | None,
        stamp: int,
        outcome: TaskOutcome[Delivery],
        now_ms: float,
    ) -> None:
        if partition is None:
            self.buffered_bytes -= record.size
            text = f"topic {record.topic} did not appear in time"
            self._reject(outcome, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
            return
        self._append(partition, record, record.size, stamp, now_ms).when_done(outcome.take_over)
