"""The rows that a task stages, and what the driver finds of them.

A *task* encodes its rows and stages them: small ones travel with its commit message, larger ones go to a file
below ``stagingLocation``. Nothing is sent, so a task that is retried, killed or run twice leaves nothing in a
topic. The *driver's* commit gets one message per task, from the attempt that Spark chose.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.places.one_place import (
    QUERY_ID,
    check_checkpoint,
    has_staged,
    is_first_of_process,
    remedy,
    this_executor,
)
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write.admission import AdmissionRequest
from barnabas.pipeline.write.commit_log import Chunk, CommitLog
from barnabas.pipeline.write.prepared.participants import BatchBegun, Participant
from barnabas.pipeline.write.publisher import Outgoing, next_sequence
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.write.batch_encoder import BatchEncoder, EncodedBatch

BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Spark gives the jobs of a query the run id as their group, also within foreachBatch."""
UUID_FORM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A job group of another form was set by a program and may be the same in every run: it is ignored."""
MESSAGE_BYTES_MAX = 256 << 20
"""The most that a task sends with its commit message where there is no staging location."""


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):  # type: ignore[misc]
    """One task's encoded rows: in `data`, or in `file` below the staging location."""

    application: str
    chunks: tuple[Chunk, ...]
    data: bytes
    file: str | None = None
    query: str = ""
    run: str = ""
    """Ids of the stream and of its present run; empty outside of streams."""
    executor: str = ""
    """The executor of the task, for an error's text."""
    store: str = ""
    """Spark's default file system, if bare paths of the options are in it."""
    begun: BatchBegun | None = None
    """The driver's part where tasks may have transactions of their own."""
    participant: Participant | None = None
    """The task's transaction, which is open and has `rows` rows."""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One attempt of a task: what it is of, and its encoder."""

    application: str
    query: str
    run: str
    batch: int
    task: int
    encoder: BatchEncoder

    @classmethod
    def of(cls, options: SinkOptions) -> TaskPlace:
        """The place of the task that runs in this process. Raises `StagingError`."""
        from barnabas.pipeline.write.batch_encoder import BatchEncoder

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        number = context.getLocalProperty(BATCH_ID) if context is not None else None
        group = context.getLocalProperty(RUN_ID) if context is not None else None
        run = group if group and UUID_FORM.fullmatch(group) else ""
        check_checkpoint(options.checkpoint, query)
        encoder = BatchEncoder(
            options,
            options.cluster.connect().partition_count,
            wall_ms=int(time.time() * 1000),
            turn=task,
        )
        batch = options.version if options.version is not None else int(number or 0)
        application = options.application or query or ""
        return cls(application, query or "", run, batch, task, encoder)


def stage(options: SinkOptions, rows: Iterator[pa.RecordBatch]) -> StagedTask:
    """Encode the rows of a task, and keep them in the message or in a file. Raises `StagingError`."""
    place = TaskPlace.of(options)
    return stage_batches(
        options, place, (b for columns in rows for b in place.encoder.encode(columns))
    )


def stage_batches(
    options: SinkOptions, place: TaskPlace, batches: Iterable[EncodedBatch]
) -> StagedTask:
    """Stage what a task has encoded, as `stage` does."""
    application, query, run = place.application, place.query, place.run
    chunks: list[Chunk] = []
    parts: list[bytearray] = []
    size = 0
    for batch in batches:
        chunks.append(Chunk(batch.partition, batch.records, len(batch.data)))
        parts.append(batch.data)
        size += len(batch.data)
        if size > MESSAGE_BYTES_MAX and not options.staging:
            raise StagingError(
                f"a task has over {MESSAGE_BYTES_MAX >> 20} MiB of rows: set stagingLocation to a"
                " place that driver and executors share, or write with more tasks"
            )
    proves = bool(options.staging and application and is_first_of_process(options.staging))
    if not options.staging or (size <= options.inline_bytes_max and not proves):
        data = b"".join(parts)
        return StagedTask(application, tuple(chunks), data, None, query, run)
    ledger = CommitLog(open_store(options.staging), application or uuid.uuid4().hex)
    file = ledger.staged_name(place.batch, f"{place.task}-{uuid.uuid4().hex}")
    try:
        ledger.store.write(file, parts)
    except OSError as error:
        raise StagingError(
            f"{this_executor()} cannot write in stagingLocation {options.staging}: {error}."
            f" {remedy(options.staging)}"
        ) from error
    has_staged(options.staging)
    return StagedTask(application, tuple(chunks), b"", file, query, run, this_executor())


def check_staged(
    ledger: CommitLog, messages: Sequence[StagedTask], asked: AdmissionRequest
) -> None:
    """Check, before a manifest names the files of the tasks, that the driver can read them to their ends.
    Raises `StagingError`."""
    for message in messages:
        end = sum(chunk.size for chunk in message.chunks)
        if message.file is None or not end:
            continue
        try:
            is_whole = bool(ledger.store.read_at(message.file, end - 1, 1))
        except FileNotFoundError:
            is_whole = False
        if not is_whole:
            raise StagingError(missing_file(message, asked.staging or "", str(asked)))


def missing_file(task: StagedTask, staging: str, what: str) -> str:
    return (
        f"{what}: {task.executor or 'a task'} has staged rows in {task.file}, and the driver does not find"
        f" them below stagingLocation {staging} (by default checkpointLocation with /barnabas)."
        f" {remedy(staging)}"
    )


def way_out(asked: AdmissionRequest) -> str:
    """The way out for an operator of a batch that cannot be published, and that holds up all later ones."""
    skip = asked.command("skip", "--batch", str(asked.batch))
    forget = asked.command("forget", "--from", str(asked.batch))
    return (
        "The query continues with this batch when the cause is removed and it is started again."
        f" Otherwise {skip} leaves out what of the batch is not in the topic, and {forget} has the batch"
        " computed and written again as a whole"
    )


def outgoing_of(options: SinkOptions, messages: Sequence[StagedTask]) -> list[Outgoing]:
    """The batches that tasks have staged; sequence numbers begin at 0."""
    store = open_store(options.staging) if options.staging else None
    outgoing: list[Outgoing] = []
    sequences: dict[TopicPartition, int] = {}
    for message in messages:
        position = 0
        for chunk in message.chunks:
            at, after = position, position + chunk.size

            def load(message: StagedTask = message, at: int = at, after: int = after) -> bytearray:
                if message.file is None:
                    return bytearray(message.data[at:after])
                assert store is not None
                try:
                    return bytearray(store.read_at(message.file, at, after - at))
                except FileNotFoundError as error:
                    what = missing_file(message, options.staging or "", "a batch write")
                    raise StagingError(what) from error

            sequence = sequences.get(chunk.partition, 0)
            outgoing.append(Outgoing(chunk.partition, sequence, chunk.records, chunk.size, load))
            sequences[chunk.partition] = next_sequence(sequence, chunk.records)
            position = after
    return outgoing


def discard(options: SinkOptions, messages: Sequence[StagedTask | None]) -> None:
    """Remove the files of attempts that are not to be published."""
    files = [
        message.file for message in messages if message is not None and message.file is not None
    ]
    if files:
        assert options.staging is not None
        store = open_store(options.staging)
        for file in files:
            store.delete(file)


def discard_unless_named(
    options: SinkOptions, messages: Sequence[StagedTask | None], number: int
) -> None:
    """Discard as `discard` does, for batch `number`. If its commit failed, a manifest may name the files:
    then they stay for the run that completes it."""
    tasks = given(messages)
    if tasks and options.staging is not None:
        ledger = CommitLog(open_store(options.staging), tasks[0].application)
        if ledger.manifest(number) is None:
            discard(options, tasks)


def given(messages: Sequence[StagedTask | None]) -> list[StagedTask]:
    return [message for message in messages if message is not None]
