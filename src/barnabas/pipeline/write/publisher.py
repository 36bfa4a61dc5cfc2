"""Publishes encoded batches, each exactly once per identity and sequence.

Owns what a failed batch means to a pipeline; :mod:`barnabas.client.producers.prepared_sender` sends: with
acks=all, one batch per partition under way, again until the leader has answered for it. A broker recognises a
batch by (producer id, epoch, base sequence), so that sending again never stores it twice.

`landed` answers the other question, after a crash: which of these batches are in the log already?
It reads batch headers from where the log ended before the first of them was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from barnabas.client.client import may_pass
from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.batch_sender import OutgoingBatch, SendOptions
from barnabas.client.producers.prepared_sender import PreparedSender
from barnabas.client.producers.produce_requests import IDENTITY_LOST
from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.client.transactions import PRODUCE_BEFORE_IMPLICIT
from barnabas.pipeline.cluster_client import ClusterClient, offsets_of_all
from barnabas.pipeline.errors import BatchRefusedTooLargeError, PipelineError, WriteRefusedError
from barnabas.pipeline.offsets import LATEST, Range
from barnabas.pipeline.options import SinkOptions, SourceOptions
from barnabas.pipeline.patience import gave_up
from barnabas.pipeline.read.range_reader import RangeReader
from barnabas.record.batch import HEADER_SIZE, iterate, stamp_producer
from barnabas.types import Buffer, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

SEQUENCES = 1 << 31
REQUEST_BYTES_MAX = 16 << 20

ANSWER_MS = 10_000.0
"""The time of a request beside that in which the leader waits for in-sync replicas."""
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


class StampedBatch(OutgoingBatch):
    """A batch with the identity in it, from its first attempt on."""

    __slots__ = ("_data", "_identity", "_transactional", "outgoing")

    def __init__(
        self, outgoing: Outgoing, identity: ProducerIdentity, *, transactional: bool
    ) -> None:
        super().__init__(outgoing.partition, outgoing.size)
        self.outgoing = outgoing
        self._identity = identity
        self._transactional = transactional
        self._data: memoryview | None = None

    def encoded(self) -> Buffer:
        if self._data is None:
            data, sequence = self.outgoing.load(), self.outgoing.sequence
            stamp_producer(data, *self._identity, sequence, is_transactional=self._transactional)
            self._data = memoryview(data).toreadonly()
        return self._data


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
        self._lost: dict[TopicPartition, tuple[int, str]] = {}
        """Partitions that cannot use this identity any more: the sequence that was refused, and why.
        The other partitions keep using it."""
        self._too_large: list[str] = []
        """Why topics do not take the size of a batch."""

    def publish(self, batches: Iterable[Outgoing]) -> None:
        """Return when all are acknowledged by all in-sync replicas. Raises `WriteRefusedError`,
        `IdentityLostError`, `ClusterUnreachableError`; then some may be in and some not. With
        `IdentityLostError` and `BatchRefusedTooLargeError` nothing is under way any more: who asks for
        another identity must not find later what was sent under this one. In a transaction `FencedError`
        too."""
        transactional = self._transactional_id is not None
        acks_ms = self._options.produce_timeout_ms
        options = SendOptions(
            acks_timeout_ms=acks_ms,
            request_timeout_ms=acks_ms + ANSWER_MS,
            request_bytes_max=REQUEST_BYTES_MAX,
            transactional_id=self._transactional_id,
        )
        self._cluster.run(
            lambda client: PreparedSender[StampedBatch](
                client,
                options,
                self._on_failed,
                patience_ms=self._cluster.patience_ms,
                at_most=PRODUCE_BEFORE_IMPLICIT if transactional else None,
            ).deliver(
                StampedBatch(batch, self._identity, transactional=transactional)
                for batch in batches
            )
        )
        if self._lost:
            refused = {(partition, sequence) for partition, (sequence, _) in self._lost.items()}
            raise IdentityLostError("; ".join(why for _, why in self._lost.values()), refused)
        if self._too_large:
            raise BatchRefusedTooLargeError("; ".join(self._too_large))

    def _on_failed(self, batch: StampedBatch, error: Exception) -> None:
        """Keep what ends one partition; raise what ends all."""
        code = error.code if isinstance(error, KafkaError) else None
        why, outgoing = f"{batch.partition}: {error}", batch.outgoing
        if code in FENCED and self._transactional_id is not None:
            raise FencedError(why) from error
        if code in IDENTITY_OR_TRANSACTION_LOST:
            self._lost[batch.partition] = (outgoing.sequence, why)
        elif code in TOO_LARGE:
            self._too_large.append(f"{why}: {too_large(outgoing, self._options)}")
        elif may_pass(error):
            raise gave_up(self._cluster.patience_ms, why) from error
        elif isinstance(error, (KafkaError, ChannelError)):
            raise WriteRefusedError(why) from error
        else:
            raise error  # it could not be loaded


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
