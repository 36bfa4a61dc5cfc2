"""A task that writes its rows itself, in a transaction that it leaves open for the driver to end.

Owns one attempt's transaction: begun at the first rows that are too many for the commit message, in two-phase
commit, so that it has no time-out. The attempt aborts it where it fails; where its process is killed, the
driver does.

Owns the names, too. A transactional id belongs to one process and one run of the query. Only its process asks
for its producer id, one task after the other, so that an attempt which was given up and still runs can fence
no other attempt. A process takes an id again for a later batch of the same run: that batch has started, so
the driver has ended the transactions of the earlier one.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.errors import BatchRefusedTooLargeError, PipelineError, WriteRefusedError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.admission import AdmissionRequest
from barnabas.pipeline.write.commit_log import Chunk, Origin
from barnabas.pipeline.write.prepared.participants import ALWAYS, BatchBegun, Participant
from barnabas.pipeline.write.publisher import Outgoing, next_sequence
from barnabas.pipeline.write.staged_task import (
    StagedTask,
    TaskPlace,
    stage_batches,
    way_out,
)
from barnabas.pipeline.write.transaction import DriverTransaction
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.write.batch_encoder import EncodedBatch

log = logging.getLogger(__name__)

PORTION_BYTES = 8 << 20
PROCESS_DIGITS = 12
_used: dict[tuple[int, str, str], tuple[str, list[int]]] = {}
"""The process's part of its names, by process, driver and run, and by number the last batch of each."""


def take_suffix(key: str, place: TaskPlace) -> str:
    """A name that no open transaction of a batch that may count has."""
    if not place.run:
        return f"{uuid.uuid4().hex[:PROCESS_DIGITS]}.0"
    at = (os.getpid(), key, place.run)
    if at not in _used:
        _used[at] = (uuid.uuid4().hex[:PROCESS_DIGITS], [])
    process, batches = _used[at]
    for number, last in enumerate(batches):
        if last < place.batch:
            batches[number] = place.batch
            return f"{process}.{number}"
    batches.append(place.batch)
    return f"{process}.{len(batches) - 1}"


def write_in_transaction(
    options: SinkOptions,
    begun: BatchBegun,
    rows: Iterator[pa.RecordBatch],
    place: TaskPlace | None = None,
) -> StagedTask:
    """Write a task's rows. The message lists the open transaction, or brings the rows where they are few."""
    place = place or TaskPlace.of(options)
    writer = TaskWriter(options, begun, place)
    encoded = (batch for columns in rows for batch in place.encoder.encode(columns))
    try:
        for batch in encoded:
            writer.add(batch)
        return writer.finish()
    except _NoTransactionError as error:
        if options.task_transactions == ALWAYS:
            raise WriteRefusedError(
                f"{error}. taskTransactions=auto goes through the driver there"
            ) from error
        log.warning("pipeline.task_without_transaction: %s", error)
        staged = stage_batches(options, place, chain(writer.kept, encoded))
        return replace(staged, begun=begun)
    except BatchRefusedTooLargeError as error:
        writer.abort()
        raise WriteRefusedError(f"{error}. {way_out(_asked(options, begun, place))}") from error
    except BaseException:
        writer.abort()
        raise


def _asked(options: SinkOptions, begun: BatchBegun, place: TaskPlace) -> AdmissionRequest:
    bootstrap = ",".join(map(str, options.cluster.bootstrap))
    return AdmissionRequest(place.batch, begun.key, "", Origin(place.query), bootstrap=bootstrap)


class _NoTransactionError(PipelineError):
    """A coordinator has no two-phase commit, as while that is enabled node by node. Nothing is sent."""


class TaskWriter:
    """The rows of one attempt."""

    def __init__(self, options: SinkOptions, begun: BatchBegun, place: TaskPlace) -> None:
        self._options = options
        self._begun = begun
        self._place = place
        self._kept_bytes_max = (
            0 if options.task_transactions == ALWAYS else options.inline_bytes_max
        )
        self._transaction: DriverTransaction | None = None
        self._suffix = ""
        self._sequences: dict[TopicPartition, int] = {}
        self.kept: list[EncodedBatch] = []
        """Batches that are not sent yet."""
        self._size = 0
        self._rows = 0

    def add(self, batch: EncodedBatch) -> None:
        self.kept.append(batch)
        self._size += len(batch.data)
        self._rows += batch.records
        if self._size >= PORTION_BYTES:
            self._flush()

    def finish(self) -> StagedTask:
        """The message for the driver. Everything is acknowledged by all in-sync replicas."""
        place, begun = self._place, self._begun
        if self._transaction is None and self._size <= self._kept_bytes_max:
            chunks = tuple(
                Chunk(batch.partition, batch.records, len(batch.data)) for batch in self.kept
            )
            data = b"".join(batch.data for batch in self.kept)
            return StagedTask(
                place.application, chunks, data, None, place.query, place.run, begun=begun
            )
        self._flush()
        assert self._transaction is not None
        identity = self._transaction.identity
        return StagedTask(
            place.application,
            (),
            b"",
            None,
            place.query,
            place.run,
            begun=begun,
            participant=Participant(self._suffix, identity.producer_id, identity.producer_epoch),
            rows=self._rows,
        )

    def abort(self) -> None:
        """Nothing of it counts. What cannot be said now the driver says before the next batch."""
        if self._transaction is not None:
            with suppress(KafkaError, ChannelError, PipelineError):
                self._transaction.abort()

    def _flush(self) -> None:
        if not self.kept:
            return
        if self._transaction is None:
            self._begin()
        assert self._transaction is not None
        portion, self.kept, self._size = self.kept, [], 0
        outgoing = []
        for partition, records, data in portion:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = next_sequence(sequence, records)

            def load(data: bytearray = data) -> bytearray:
                return data

            outgoing.append(Outgoing(partition, sequence, records, len(data), load))
        self._transaction.write(outgoing)

    def _begin(self) -> None:
        self._suffix = take_suffix(self._begun.key, self._place)
        name = f"{self._begun.key}.{self._suffix}"
        cluster = self._options.cluster.connect()
        transaction = DriverTransaction(cluster, self._options, name, two_phase=True)
        try:
            transaction.begin()
        except (ChannelError, KafkaError) as error:
            raise _NoTransactionError(f"no transaction of {name}: {error}") from error
        self._transaction = transaction
