"""Writing by staged tasks: what a task stages, and publishing it by a manifest.

Two phases. A *task* encodes its rows and stages them: small ones travel with its commit message,
larger ones go to a file below ``stagingLocation``. Nothing is sent, so a task that is retried,
killed or run twice leaves nothing in a topic. The *driver's* commit gets one message per task,
from the attempt that Spark chose, and publishes them: in a transaction
(:mod:`barnabas.pipeline.write.transactional`), or, for clusters without, through its
:class:`barnabas.pipeline.write.commit_log.CommitLog` under the batch id, exactly once however often the batch
is run.

Without transactions a reader may see a part of a batch before the rest. Decision records:
docs/decisions on exactly-once writes of pipelines.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from barnabas.pipeline.checkpoint import planned
from barnabas.pipeline.cluster_client import ClusterClient, Patience
from barnabas.pipeline.errors import (
    BatchRefusedTooLargeError,
    ClusterUnreachableError,
    StagingError,
    WriteRefusedError,
)
from barnabas.pipeline.offsets import LATEST
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
from barnabas.pipeline.write.admission import AdmissionRequest, admit
from barnabas.pipeline.write.commit_log import (
    Chunk,
    CommitEntry,
    CommitLog,
    Manifest,
    ManifestSource,
    Origin,
)
from barnabas.pipeline.write.prepared.participants import BatchBegun, Participant
from barnabas.pipeline.write.publisher import (
    IdentityLostError,
    Outgoing,
    ProducerIdentity,
    Publisher,
    landed,
    next_sequence,
    too_large,
)
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.write.batch_encoder import BatchEncoder, EncodedBatch

log = logging.getLogger(__name__)
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
    return stage_batches(options, place, (b for each in rows for b in place.encoder.encode(each)))


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


def publish_once(options: SinkOptions, messages: Sequence[StagedTask], number: int) -> int:
    """Publish batch `number` of the application, unless that is done; finish what an earlier run of it has
    begun. Returns how many record batches this run sent. Raises `LedgerError` if the ledger has another
    batch of that number."""
    assert options.staging is not None
    first = messages[0]
    ledger = CommitLog(open_store(options.staging), first.application)
    origin = Origin(first.query, first.run, planned(options, first.query, number))
    asked = AdmissionRequest(number, first.application, options.staging, origin, options.new_ledger)
    committed = ledger.committed()
    answer = admit(asked, committed, ledger.manifest(number))
    if not answer.is_new:
        if answer.warning:
            log.warning("pipeline.batch_skipped: %s", answer.warning)
        ledger.clear(committed.batch)
        return 0
    cluster = options.cluster.connect()
    for earlier in ledger.unfinished(committed.batch, number):
        # A part of it may be in the topic already; the rest has to be there before the next batch.
        before = replace(asked, batch=earlier.batch, origin=replace(origin, planned=""))
        admit(before, committed, earlier)
        finish(options, cluster, ledger, earlier, committed, before, look_first=True)
        committed = ledger.committed()
    try:
        return publish_next(options, cluster, ledger, committed, asked, messages)
    except StagingError:
        if ledger.committed().batch < number:
            raise
        return 0  # another driver has published it, and cleared what this one was to read


def publish_next(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    committed: CommitEntry,
    asked: AdmissionRequest,
    messages: Sequence[StagedTask],
) -> int:
    """Publish the batch `asked.batch`; all batches before it are published."""
    manifest = ledger.manifest(asked.batch)
    look_first = manifest is not None
    if manifest is None:
        if not any(each.chunks for each in messages):
            if not committed.is_there:
                ledger.begin(asked.origin.query)  # a later batch finds that this was the first
            return 0
        check_staged(ledger, messages, asked)
        plan_of_batch, inline = plan(cluster, committed, messages, asked.batch, asked.origin)
        manifest = ledger.prepare(plan_of_batch, inline)
        done = ledger.committed().batch
        if asked.batch <= done:
            # Another driver has published it, and cleared its manifest, since this one looked.
            ledger.clear(done)
            return 0
    return finish(options, cluster, ledger, manifest, committed, asked, look_first=look_first)


def check_staged(
    ledger: CommitLog, messages: Sequence[StagedTask], asked: AdmissionRequest
) -> None:
    """Check, before a manifest names the files of the tasks, that the driver can read them to their ends.
    Raises `StagingError`."""
    for each in messages:
        end = sum(chunk.size for chunk in each.chunks)
        if each.file is None or not end:
            continue
        try:
            is_whole = bool(ledger.store.read_at(each.file, end - 1, 1))
        except FileNotFoundError:
            is_whole = False
        if not is_whole:
            raise StagingError(missing_file(each, asked.staging or "", str(asked)))


def missing_file(task: StagedTask, staging: str, what: str) -> str:
    return (
        f"{what}: {task.executor or 'a task'} has staged rows in {task.file}, and the driver does not find"
        f" them below stagingLocation {staging} (by default checkpointLocation with /barnabas)."
        f" {remedy(staging)}"
    )


def finish(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    committed: CommitEntry,
    asked: AdmissionRequest,
    *,
    look_first: bool,
) -> int:
    """Publish a manifest, and commit it in the ledger. Returns how many record batches this run sent."""
    patience: Patience | None = None
    try:
        while True:
            try:
                sent = send(options, cluster, ledger, manifest, look_first=look_first)
                break
            except BatchRefusedTooLargeError:
                left = not_landed(options, cluster, ledger, manifest)
                manifest = renew(cluster, ledger, manifest, *smaller(options, left))
                look_first, patience = False, None
            except IdentityLostError as error:
                outgoing = list(manifest.outgoing(ledger.store))
                there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
                look_first = error.refused <= there
                if look_first:
                    patience = (
                        None  # another driver has sent what was refused here: this went forward
                    )
                else:
                    patience = patience or Patience(cluster.patience_ms)
                    patience.wait(error)
                    left = [
                        each for each in outgoing if (each.partition, each.sequence) not in there
                    ]
                    manifest = renew(cluster, ledger, manifest, *as_they_are(left))
    except (WriteRefusedError, ClusterUnreachableError, StagingError) as error:
        raise type(error)(f"{asked}: {error}. {way_out(asked)}") from error
    ledger.commit(manifest, committed)
    return sent


def way_out(asked: AdmissionRequest) -> str:
    """The way out for an operator of a batch that cannot be published, and that holds up all later ones."""
    skip = asked.command("skip", "--batch", str(asked.batch))
    forget = asked.command("forget", "--from", str(asked.batch))
    return (
        "The query continues with this batch when the cause is removed and it is started again."
        f" Otherwise {skip} leaves out what of the batch is not in the topic, and {forget} has the batch"
        " computed and written again as a whole"
    )


def plan(
    cluster: ClusterClient,
    committed: CommitEntry,
    messages: Sequence[StagedTask],
    number: int,
    origin: Origin,
) -> tuple[Manifest, list[bytes]]:
    """The manifest of a batch that is run for the first time, and the data that the messages bring.

    Sequence numbers continue within a run of the query. Another run gets a new producer id: if the ledger
    was restored or copied, later sequence numbers may have been used, and brokers would take rows under
    them for duplicates.
    """
    identity, known = committed.identity, committed.sequences
    if identity is None or not origin.run or origin.run != committed.origin.run:
        identity, known = ProducerIdentity(*cluster.init_producer_id()), {}
    sources, inline, position = [], [], 0
    for each in messages:
        sources.append(ManifestSource(each.file or "", 0 if each.file else position, each.chunks))
        if each.file is None:
            inline.append(each.data)
            position += len(each.data)
    partitions = sorted({chunk.partition for each in sources for chunk in each.chunks})
    manifest = Manifest(
        batch=number,
        identity=identity,
        sequences={each: known.get(each, 0) for each in partitions},
        log_ends=log_ends(cluster, partitions),
        sources=tuple(sources),
        origin=origin,
    )
    return manifest, inline


def log_ends(
    cluster: ClusterClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    found = cluster.list_offsets(dict.fromkeys(partitions, LATEST))
    return {each: found[each].offset if each in found else 0 for each in partitions}


def send(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    *,
    look_first: bool,
) -> int:
    """Publish a manifest. `look_first`: without the batches that are in the topics' logs already."""
    outgoing = list(manifest.outgoing(ledger.store))
    if look_first:
        there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
        outgoing = [each for each in outgoing if (each.partition, each.sequence) not in there]
    Publisher(cluster, manifest.identity, options).publish(outgoing)
    return len(outgoing)


def not_landed(
    options: SinkOptions, cluster: ClusterClient, ledger: CommitLog, manifest: Manifest
) -> list[Outgoing]:
    outgoing = list(manifest.outgoing(ledger.store))
    there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
    return [each for each in outgoing if (each.partition, each.sequence) not in there]


def as_they_are(left: Sequence[Outgoing]) -> tuple[list[Chunk], list[bytes]]:
    chunks = [Chunk(each.partition, each.records, each.size) for each in left]
    return chunks, [bytes(each.load()) for each in left]


def smaller(options: SinkOptions, left: Sequence[Outgoing]) -> tuple[list[Chunk], list[bytes]]:
    """Batches that were too large for a topic, cut to the present ``kafka.batch.size``, which may be less
    than when the manifest was made. Raises `WriteRefusedError` if no batch of a partition gets smaller."""
    from barnabas.pipeline.write.recut import recut

    chunks: list[Chunk] = []
    data: list[bytes] = []
    stuck: set[TopicPartition] = {each.partition for each in left}
    for each in left:
        for piece in recut(options, each):
            chunks.append(Chunk(piece.partition, piece.records, len(piece.data)))
            data.append(bytes(piece.data))
            if len(piece.data) < each.size:
                stuck.discard(each.partition)
    if stuck:
        largest = max(
            (each for each in left if each.partition in stuck), key=lambda each: each.size
        )
        raise WriteRefusedError(
            f"{largest.partition}: MESSAGE_TOO_LARGE:"
            f" {too_large(largest.records, largest.size, options)}"
        )
    return chunks, data


def renew(
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    chunks: Sequence[Chunk],
    data: Sequence[bytes],
) -> Manifest:
    """Replace a manifest by one with a new producer id, for the batches that are not in the topics yet:
    brokers have forgotten the old producer id, or the batches were cut again."""
    partitions = sorted({each.partition for each in chunks})
    fresh = replace(
        manifest,
        identity=ProducerIdentity(*cluster.init_producer_id()),
        sequences=dict.fromkeys(partitions, 0),
        log_ends=log_ends(cluster, partitions),
        sources=(ManifestSource("", 0, tuple(chunks)),),
    )
    return ledger.replace(fresh, data)


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


def publish_plainly(options: SinkOptions, messages: Sequence[StagedTask]) -> int:
    """Publish a batch write that Spark will never repeat."""
    outgoing = outgoing_of(options, messages)
    if outgoing:
        cluster = options.cluster.connect()
        identity = ProducerIdentity(*cluster.init_producer_id())
        Publisher(cluster, identity, options).publish(outgoing)
    discard(options, messages)
    return len(outgoing)


def discard(options: SinkOptions, messages: Sequence[StagedTask | None]) -> None:
    """Remove the files of attempts that are not to be published."""
    files = [each.file for each in messages if each is not None and each.file is not None]
    if files:
        assert options.staging is not None
        store = open_store(options.staging)
        for each in files:
            store.delete(each)


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
    return [each for each in messages if each is not None]
