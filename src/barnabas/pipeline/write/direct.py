"""At least once: a task sends its rows itself, as Spark's Kafka connector does.

Owns a task's own producer: an idempotent identity per attempt, so that a request that is sent again is
stored once; an attempt that runs again, and a micro-batch that does, write their rows again. Nothing is
staged, and the driver has nothing to do. Rows go out in portions, so that a task holds one of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext

from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.delivery import BatchDelivery
from barnabas.pipeline.write.publisher import IdentityLostError, Outgoing, Publisher, next_sequence
from barnabas.pipeline.write.staged_task import StagedTask
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.write.batch_encoder import EncodedBatch

PORTION_BYTES = 8 << 20


class AtLeastOnce(BatchDelivery):
    """Rows that count as soon as they are written."""

    def write(self, rows: Iterator[pa.RecordBatch]) -> StagedTask:
        """Send a task's rows; return when all are acknowledged by all in-sync replicas."""
        from barnabas.pipeline.write.batch_encoder import BatchEncoder

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        sender = DirectSender(self.options)
        encoder = BatchEncoder(
            self.options,
            self.options.cluster.connect().partition_count,
            wall_ms=int(time.time() * 1000),
            turn=task,
        )
        for columns in rows:
            for batch in encoder.encode(columns):
                sender.add(batch)
        sender.flush()
        return StagedTask("", (), b"")

    def commit(self, tasks: Sequence[StagedTask], number: int | None) -> int:
        return 0

    def abort(self, messages: Sequence[StagedTask | None], number: int | None) -> None:
        """Nothing is staged, and what is written stays."""


class DirectSender:
    """Sends encoded batches in portions, with sequences of its own."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._cluster = options.cluster.connect()
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._portion: list[EncodedBatch] = []
        self._size = 0

    def add(self, batch: EncodedBatch) -> None:
        self._portion.append(batch)
        self._size += len(batch.data)
        if self._size >= PORTION_BYTES:
            self.flush()

    def flush(self) -> None:
        portion, self._portion, self._size = self._portion, [], 0
        if not portion:
            return
        try:
            self._publish(portion)
        except IdentityLostError:
            # Brokers forgot the identity. Some of the portion may be written: at least once.
            self._identity = None
            self._publish(portion)

    def _publish(self, portion: list[EncodedBatch]) -> None:
        if self._identity is None:
            self._identity = ProducerIdentity(*self._cluster.init_producer_id())
            self._sequences = {}
        outgoing = []
        for partition, records, data in portion:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = next_sequence(sequence, records)

            def load(data: bytearray = data) -> bytearray:
                return data

            outgoing.append(Outgoing(partition, sequence, records, len(data), load))
        Publisher(self._cluster, self._identity, self._options).publish(outgoing)
