"""Writing: the batch and the stream writer of ``format("barnabas")``.

Two phases. A *task* encodes its rows and stages them: small ones travel with its commit message,
larger ones go to a file below ``stagingLocation``. Nothing is sent, so a task that is retried,
killed or run twice leaves nothing in a topic. The *driver's* commit gets one message per task,
from the attempt that Spark chose, and publishes them: a stream through its
:class:`barnabas.pipeline.write.commit_log.CommitLog` under the batch id, exactly once however often the batch
is run; a batch write likewise where ``txnAppId`` and ``txnVersion`` say which write it is, and
otherwise once per job.

What is not promised without transactions: that readers see a batch all at once. Decision record:
docs/decisions on exactly-once writes of pipelines.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from barnabas.pipeline.cluster_client import LATEST, ClusterClient, Patience
from barnabas.pipeline.errors import OptionError, StagingError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.commit_log import (
    Chunk,
    CommitEntry,
    CommitLog,
    Manifest,
    ManifestSource,
)
from barnabas.pipeline.write.publisher import (
    IdentityLostError,
    Outgoing,
    ProducerIdentity,
    Publisher,
    landed,
)
from barnabas.pipeline.write.staging import open_store
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
MESSAGE_BYTES_MAX = 256 << 20
"""What a task hands over with its message where there is no place to stage it."""


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):  # type: ignore[misc]
    """One task's encoded rows: in `data`, or in `file` below the staging location."""

    application: str
    chunks: tuple[Chunk, ...]
    data: bytes
    file: str | None = None


def check_columns(schema: StructType, options: SinkOptions, *, overwrite: bool) -> None:
    """Raises `OptionError` where a DataFrame cannot be written as records."""
    if overwrite:
        raise OptionError("mode overwrite is not possible: a topic is appended to")
    allowed: dict[str, tuple[type[DataType], ...]] = {
        "key": (BinaryType, StringType),
        "value": (BinaryType, StringType),
        "topic": (StringType,),
        "partition": (IntegerType,),
        "headers": (ArrayType,),
    }
    found = {each.name.lower(): each.dataType for each in schema.fields}
    for name, type_ in found.items():
        if name not in allowed:
            raise OptionError(f"column {name!r} is none of {', '.join(allowed)}")
        if not isinstance(type_, allowed[name]):
            names = " or ".join(each.typeName() for each in allowed[name])
            raise OptionError(f"column {name!r} is {names}, not {type_.simpleString()}")
    if "value" not in found:
        raise OptionError("column 'value' is missing")
    if "topic" not in found and options.topic is None:
        raise OptionError("no topic: set option topic or give a column topic")
    headers = found.get("headers")
    shape = "array<struct<key:string,value:binary>>"
    if headers is not None and headers.simpleString() != shape:
        raise OptionError(f"column 'headers' is {shape}, not {headers.simpleString()}")


def stage(options: SinkOptions, rows: Iterator[pa.RecordBatch]) -> StagedTask:
    """A task's work: encode, and keep where the driver finds it."""
    from barnabas.pipeline.write.batch_encoder import BatchEncoder

    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    query = context.getLocalProperty(QUERY_ID) if context is not None else None
    number = context.getLocalProperty(BATCH_ID) if context is not None else None
    application = options.application or query or ""
    wall_ms = int(time.time() * 1000)
    partitions_of = options.cluster.connect().partition_count
    encoder = BatchEncoder(options, partitions_of, wall_ms=wall_ms, turn=task)
    chunks: list[Chunk] = []
    parts: list[bytearray] = []
    size = 0
    for each in rows:
        for batch in encoder.encode(each):
            chunks.append(Chunk(batch.partition, batch.records, len(batch.data)))
            parts.append(batch.data)
            size += len(batch.data)
        if size > MESSAGE_BYTES_MAX and not options.staging:
            raise StagingError(
                f"a task has over {MESSAGE_BYTES_MAX >> 20} MiB of rows: set stagingLocation to a"
                " place that driver and executors share, or write with more tasks"
            )
    if size <= options.inline_bytes_max or not options.staging:
        return StagedTask(application, tuple(chunks), b"".join(parts))
    ledger = CommitLog(open_store(options.staging), application or uuid.uuid4().hex)
    version = options.version if options.version is not None else int(number or 0)
    file = ledger.staged_name(version, f"{task}-{uuid.uuid4().hex}")
    ledger.store.write(file, parts)
    return StagedTask(application, tuple(chunks), b"", file)


def publish_once(options: SinkOptions, messages: Sequence[StagedTask], number: int) -> int:
    """Publish batch `number` of the application, if that has not been done; whatever ended an
    earlier run of it. Returns how many record batches this run sent."""
    assert options.staging is not None
    ledger = CommitLog(open_store(options.staging), messages[0].application)
    committed = ledger.committed()
    if number <= committed.batch:
        ledger.clear(committed.batch)
        return 0
    cluster = options.cluster.connect()
    for earlier in ledger.unfinished(committed.batch, number):
        # A part of it may have landed under the sequences that this batch would begin with.
        finish(options, cluster, ledger, earlier, committed, look_first=True)
        committed = ledger.committed()
    manifest = ledger.manifest(number)
    first_run = manifest is None
    if manifest is None:
        if not any(each.chunks for each in messages):
            return 0
        manifest = ledger.prepare(*plan(cluster, committed, messages, number))
        done = ledger.committed().batch
        if number <= done:
            # Another driver has published it, and cleared its manifest, since this one looked.
            ledger.clear(done)
            return 0
    try:
        return finish(options, cluster, ledger, manifest, committed, look_first=not first_run)
    except (FileNotFoundError, StagingError):
        if ledger.committed().batch < number:
            raise
        return 0  # another driver has published it, and cleared what this one was to read


def finish(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    committed: CommitEntry,
    *,
    look_first: bool,
) -> int:
    """Publish a manifest, and say so. Returns how many record batches this run sent."""
    patience: Patience | None = None
    while True:
        try:
            sent = send(options, cluster, ledger, manifest, look_first=look_first)
            break
        except IdentityLostError as error:
            outgoing = list(manifest.outgoing(ledger.store))
            there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
            look_first = error.refused <= there
            if look_first:
                patience = None  # another driver has sent what was refused here: this went forward
            else:
                patience = patience or Patience(cluster.patience_ms)
                patience.wait(error)
                manifest = renew(cluster, ledger, manifest, outgoing, there)
    ledger.commit(manifest, committed)
    return sent


def plan(
    cluster: ClusterClient, committed: CommitEntry, messages: Sequence[StagedTask], number: int
) -> tuple[Manifest, list[bytes]]:
    """The manifest of a batch that is run for the first time, and the contents it carries."""
    identity = committed.identity or ProducerIdentity(*cluster.init_producer_id())
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
        sequences={each: committed.sequences.get(each, 0) for each in partitions},
        log_ends=log_ends(cluster, partitions),
        sources=tuple(sources),
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
    """Publish a manifest, without what `look_first` finds in the logs."""
    outgoing = list(manifest.outgoing(ledger.store))
    if look_first:
        there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
        outgoing = [each for each in outgoing if (each.partition, each.sequence) not in there]
    Publisher(cluster, manifest.identity, options).publish(outgoing)
    return len(outgoing)


def renew(
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    outgoing: Sequence[Outgoing],
    there: set[tuple[TopicPartition, int]],
) -> Manifest:
    """Brokers have forgotten the identity: what of `outgoing` is not `there` goes out under a new one."""
    left = [each for each in outgoing if (each.partition, each.sequence) not in there]
    data = [bytes(each.load()) for each in left]
    chunks = tuple(Chunk(each.partition, each.records, each.size) for each in left)
    partitions = sorted({each.partition for each in left})
    fresh = replace(
        manifest,
        identity=ProducerIdentity(*cluster.init_producer_id()),
        sequences=dict.fromkeys(partitions, 0),
        log_ends=log_ends(cluster, partitions),
        sources=(ManifestSource("", 0, chunks),),
    )
    return ledger.replace(fresh, data)


def publish_plainly(options: SinkOptions, messages: Sequence[StagedTask]) -> int:
    """Publish a batch write that nobody will ask for again."""
    cluster = options.cluster.connect()
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
                return bytearray(store.read_at(message.file, at, after - at))

            sequence = sequences.get(chunk.partition, 0)
            outgoing.append(Outgoing(chunk.partition, sequence, chunk.records, chunk.size, load))
            sequences[chunk.partition] = sequence + chunk.records
            position = after
    if outgoing:
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
    """As `discard`, of batch `number`. Where the commit itself failed a manifest may name the
    files: then they stay, for the run that ends what it began."""
    tasks = given(messages)
    if tasks and options.staging is not None:
        ledger = CommitLog(open_store(options.staging), tasks[0].application)
        if ledger.manifest(number) is None:
            discard(options, tasks)


def given(messages: Sequence[StagedTask | None]) -> list[StagedTask]:
    return [each for each in messages if each is not None]


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write.format("barnabas")``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        return stage(self.options, iterator)

    def commit(self, messages: list[StagedTask | None]) -> None:
        tasks = given(messages)
        if not tasks:
            return
        if self.options.version is not None:
            publish_once(self.options, tasks, self.options.version)
        else:
            publish_plainly(self.options, tasks)

    def abort(self, messages: list[StagedTask | None]) -> None:
        if self.options.version is not None:
            discard_unless_named(self.options, messages, self.options.version)
        else:
            discard(self.options, messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream.format("barnabas")``."""

    def __init__(self, options: SinkOptions) -> None:
        if options.staging is None:
            raise OptionError(
                "a stream needs checkpointLocation (or stagingLocation) as an option of"
                " writeStream: what was written is kept beside it"
            )
        self.options = replace(options, version=None)  # a stream counts its batches itself

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        return stage(self.options, iterator)

    def commit(self, messages: list[StagedTask | None], batchId: int) -> None:
        tasks = given(messages)
        if tasks:
            publish_once(self.options, tasks, batchId)

    def abort(self, messages: list[StagedTask | None], batchId: int) -> None:
        discard_unless_named(self.options, messages, batchId)
