"""Putting encoded batches into their partitions, each exactly once per identity and sequence.

Owns the produce requests of a writer's driver: acks=all, one batch per partition under way, and a
batch is sent again until its partition's leader has answered for it. A broker recognises a batch
by (producer id, epoch, base sequence), so that sending again never stores it twice.

`landed` answers the other question, after a crash: which of these batches are in the log already?
It reads batch headers from where the log ended before the first of them was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.client.network.connection import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.produce_requests import (
    ACCEPTED,
    ACKS_ALL,
    IDENTITY_LOST,
    answers_of,
    produce_request,
)
from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.client.transactions import PRODUCE_BEFORE_IMPLICIT
from barnabas.pipeline.cluster_client import TRANSIENT, ClusterClient, offsets_of_all
from barnabas.pipeline.errors import BatchRefusedTooLargeError, PipelineError, WriteRefusedError
from barnabas.pipeline.offsets import LATEST, Range
from barnabas.pipeline.options import SinkOptions, SourceOptions
from barnabas.pipeline.patience import Patience
from barnabas.pipeline.read.range_reader import RangeReader
from barnabas.record.batch import HEADER_SIZE, iterate, stamp_producer
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, code_of
from barnabas.wire.messages.produce_response import ProduceResponse

SEQUENCES = 1 << 31
REQUEST_BYTES_MAX = 16 << 20

AGAIN = TRANSIENT | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CORRUPT_MESSAGE}
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
IDENTITY_OR_TRANSACTION_LOST = IDENTITY_LOST | {
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_TXN_STATE,
}
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""In a transaction: another producer has the transactional id, or the coordinator has aborted it."""


class IdentityLostError(PipelineError):
    """Brokers refused sequences as out of order. The caller takes a new identity once it knows which batches
    have landed. `refused` are the first refused batches, as (partition, sequence): one that is in its
    log was sent by another driver, which is ahead, and nothing is lost."""

    def __init__(self, why: str, refused: set[tuple[TopicPartition, int]]) -> None:
        super().__init__(why)
        self.refused = refused


class FencedError(PipelineError):
    """Another driver has the transactional id, or the transaction's time was over."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One batch to publish. `load` brings its bytes, without identity."""

    partition: TopicPartition
    sequence: int
    records: int
    size: int
    load: Callable[[], bytearray]


def next_sequence(sequence: int, records: int) -> int:
    """Sequences count records and begin again at 0 behind the largest int32."""
    return (sequence + records) % SEQUENCES


@dataclass(slots=True)
class Lot:
    """The content of one produce request: at most one batch of each partition."""

    leader: Endpoint
    partitions: list[TopicPartition] = field(default_factory=list)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)


class Publisher:
    """Publishes one lot of batches and is done."""

    def __init__(
        self,
        cluster: ClusterClient,
        identity: ProducerIdentity,
        options: SinkOptions,
        transactional_id: str | None = None,
    ) -> None:
        """With `transactional_id` the batches belong to its transaction, which has their partitions."""
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._identity = identity
        self._options = options
        self._timeout_ms = options.produce_timeout_ms
        self._queues: dict[TopicPartition, deque[Outgoing]] = {}
        self._stamped: dict[TopicPartition, bytearray] = {}
        self._lost: dict[TopicPartition, tuple[int, str]] = {}
        """Partitions that cannot use this identity any more: the sequence that was refused, and why.
        The other partitions keep using it."""
        self._too_large: dict[TopicPartition, str] = {}
        """Partitions whose topic does not take the size of a batch, and why."""
        self._trouble: object = None
        self.published = 0
        """Batches that are known to stand in their logs."""

    def publish(self, batches: Iterable[Outgoing]) -> None:
        """Return when all are acknowledged by all in-sync replicas. Raises `WriteRefusedError`,
        `IdentityLostError`, `ClusterUnreachableError`; then some may be in and some not. With
        `IdentityLostError` and `BatchRefusedTooLargeError` nothing is under way any more: who asks for
        another identity must not find later what was sent under this one. In a transaction `FencedError`
        too."""
        for batch in batches:
            self._queues.setdefault(batch.partition, deque()).append(batch)
        patience = Patience(self._cluster.patience_ms)
        while self._queues:
            before = self.published
            trouble = self._round()
            if self.published > before:
                patience.renew()
            if trouble is not None:
                patience.wait(trouble)
        if self._lost:
            refused = {(partition, sequence) for partition, (sequence, _) in self._lost.items()}
            raise IdentityLostError("; ".join(why for _, why in self._lost.values()), refused)
        if self._too_large:
            raise BatchRefusedTooLargeError("; ".join(self._too_large.values()))

    def _round(self) -> object:
        """Send the first batch of each partition to its leader, and take the answers. Returns why
        something has to be sent again, or None."""
        self._trouble = None
        sent: list[tuple[TaskOutcome[ProduceResponse], Lot]] = []
        for lot in self._lots():
            answer = self._cluster.submit(
                lot.leader,
                produce_request(
                    [(partition, self._stamp(partition)) for partition in lot.partitions],
                    lot.topic_ids.__getitem__,
                    acks=ACKS_ALL,
                    timeout_ms=self._timeout_ms,
                    transactional_id=self._transactional_id,
                ),
                timeout_ms=self._timeout_ms + 10_000.0,
                at_most=PRODUCE_BEFORE_IMPLICIT if self._transactional_id else None,
            )
            sent.append((answer, lot))
        for answer, lot in sent:
            try:
                response = self._cluster.wait(answer)
            except ChannelError as error:
                self._failed(lot.partitions, error)
                continue
            self._on_response(response, lot)
        return self._trouble

    def _lots(self) -> list[Lot]:
        """Partitions with something to send, by leader, within a request's size."""
        lots: list[Lot] = []
        filling: dict[Endpoint, tuple[Lot, int]] = {}
        for partition in sorted(self._queues):
            leader = self._cluster.leader(partition)
            topic = self._cluster.topic(partition.topic)
            if leader is None or topic is None:
                self._failed([partition], f"{partition} has no leader")
                continue
            more = self._queues[partition][0].size
            lot, size = filling.get(leader.endpoint, (None, 0))
            if lot is None or size + more > REQUEST_BYTES_MAX:
                lot, size = Lot(leader.endpoint), 0
                lots.append(lot)
            lot.partitions.append(partition)
            lot.topic_ids[partition.topic] = topic.topic_id
            filling[leader.endpoint] = (lot, size + more)
        return lots

    def _stamp(self, partition: TopicPartition) -> memoryview:
        """The batch with the identity in it."""
        if partition not in self._stamped:
            batch = self._queues[partition][0]
            data = batch.load()
            identity = self._identity
            stamp_producer(
                data,
                identity.producer_id,
                identity.producer_epoch,
                batch.sequence,
                is_transactional=self._transactional_id is not None,
            )
            self._stamped[partition] = data
        return memoryview(self._stamped[partition]).toreadonly()

    def _on_response(self, response: ProduceResponse, lot: Lot) -> None:
        names = {topic_id: name for name, topic_id in lot.topic_ids.items()}
        for partition, answer in answers_of(response, names.get).items():
            code = code_of(answer.error_code)
            why = f"{partition}: {code.name} {answer.error_message or ''}".rstrip()
            if code in ACCEPTED:
                self._done(partition)
            elif code in FENCED and self._transactional_id is not None:
                raise FencedError(why)
            elif code in IDENTITY_OR_TRANSACTION_LOST:
                self._lost[partition] = (self._queues[partition][0].sequence, why)
                self._drop(partition)
            elif code in TOO_LARGE:
                refused = self._queues[partition][0]
                self._too_large[partition] = f"{why}: {too_large(refused, self._options)}"
                self._drop(partition)
            elif code in AGAIN:
                self._failed([partition], why)
            else:
                raise WriteRefusedError(why)

    def _done(self, partition: TopicPartition) -> None:
        queue = self._queues[partition]
        queue.popleft()
        self._stamped.pop(partition, None)
        self.published += 1
        if not queue:
            del self._queues[partition]

    def _drop(self, partition: TopicPartition) -> None:
        del self._queues[partition]
        self._stamped.pop(partition, None)

    def _failed(self, partitions: list[TopicPartition], why: object) -> None:
        self._trouble = why
        for partition in partitions:
            self._cluster.forget(partition.topic)


def too_large(batch: Outgoing, options: SinkOptions) -> str:
    """The fault of a batch that a topic refused, and what helps: a record that is most of its batch gets no
    smaller by ``kafka.batch.size``."""
    from barnabas.pipeline.write.recut import largest_record

    largest = batch.size if batch.records == 1 else largest_record(options, batch)
    if 2 * (largest - HEADER_SIZE) <= batch.size - HEADER_SIZE:
        return (
            f"a batch has {batch.size} bytes, max.message.bytes of the topic is less: set kafka.batch.size"
            f" (now {options.batch_bytes_max}) below it, or raise max.message.bytes of the topic"
        )
    compress = "" if options.codec else ", or compress by kafka.compression.type"
    among = f" of a batch of {batch.records} with {batch.size}" if batch.records > 1 else ""
    return (
        f"one record{among} has {largest} bytes, max.message.bytes of the topic is less: raise"
        f" max.message.bytes of the topic{compress}"
    )


def landed(
    cluster: ClusterClient,
    identity: ProducerIdentity,
    since: Mapping[TopicPartition, int],
    wanted: Iterable[Outgoing],
    options: SinkOptions,
) -> set[tuple[TopicPartition, int]]:
    """Which of `wanted` (partition, sequence) have landed in their logs since those ended at `since`.

    Sees what consumers see, up to the high watermark. A batch above it is one that was under way
    when its writer ended; the leader still recognises its sequence when it is sent again. The
    batches of a partition are sent one after the other: if one is in the log, all before it have
    landed, even if compaction or retention has removed them since.
    """
    sequences: dict[TopicPartition, list[int]] = {}
    for outgoing in wanted:
        sequences.setdefault(outgoing.partition, []).append(outgoing.sequence)
    # A broker that does not know a partition yet must not be taken for a log without the batches.
    wanted_at = dict.fromkeys(sequences, LATEST)
    ends = offsets_of_all(cluster, wanted_at, patience_ms=cluster.patience_ms)
    source = SourceOptions(options.cluster, fail_on_data_loss=False)
    found: set[tuple[TopicPartition, int]] = set()
    for partition, expected in sorted(sequences.items()):
        places = {sequence: place for place, sequence in enumerate(expected)}
        count = 0
        what = Range(*partition, since[partition], ends[partition])
        for run in RangeReader(cluster, what, source).runs():
            for batch in iterate(run.records):
                header = batch.header
                writer = ProducerIdentity(header.producer_id, header.producer_epoch)
                if writer == identity and header.base_sequence in places:
                    count = max(count, places[header.base_sequence] + 1)
            if count == len(expected):
                break
        found.update((partition, sequence) for sequence in expected[:count])
    return found
