"""One query of a job: its frame, and ``foreachBatch``, which writes its sinks under the batch's number.

Owns what becomes of a micro-batch: each sink gets it once (topics by :mod:`barnabas.pipeline.each_batch`,
tables by their own logs). A batch counts when all sinks of the query have it; one that is repeated changes
nothing in those that had it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.each_batch import publish_each_batch
from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.jobs.graph.step_frames import rows_of
from barnabas.pipeline.jobs.job_file import Job, Query, Sink, Source
from barnabas.pipeline.jobs.job_kinds import Replay
from barnabas.pipeline.jobs.job_offsets import digest_of, offsets_of
from barnabas.pipeline.jobs.landing import Landing
from barnabas.pipeline.jobs.shared_folders import SharedFolders
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from barnabas.pipeline.jobs.tables.iceberg_table import IcebergTable
from barnabas.pipeline.jobs.tables.parquet_table import ParquetTable
from barnabas.pipeline.mirror.group_offsets import GroupCheckpoints
from barnabas.pipeline.mirror.offset_syncs import OffsetSyncs
from barnabas.pipeline.options import cluster_options, sink_options
from barnabas.pipeline.places.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD = ("key", "value", "headers")
COMMITTED = {"kafka.isolation.level": "read_committed"}
REPLAYED_AT_ONCE = {"maxOffsetsPerTrigger": "1000000"}
SOURCE = "source"
"""The stage between two batches."""

WriteBatch = Callable[["DataFrame", int], None]


class QueryRun:
    """A query in a session. `stage` is what it is doing, for the sentence of a failure."""

    def __init__(
        self, job: Job, query: Query, spark: SparkSession, shared: SharedFolders | None
    ) -> None:
        self.query = query
        self.stage = SOURCE
        self.groups: GroupCheckpoints | None = None
        self.landed: dict[int, int | None] = {}
        """Rows of batches that tasks wrote; None where the table had the batch."""
        self._job = job
        self._spark = spark
        self._shared = shared
        self._landing: Landing | None = None

    def rows(self) -> DataFrame:
        """The rows that go to the sinks. Raises `PipelineError`."""
        if self._job.lands:
            return self._land()
        found = rows_of(self._job, self.query, self._spark, self.source)
        self.stage = SOURCE
        return found if self._job.replay is None else replayed(found, self._job.replay)

    def source(self, source: Source) -> DataFrame:
        """The source as it is read by this query."""
        self.stage = SOURCE
        frame = source_frame(self._spark, self._job, source, self.query.checkpoint)
        self.stage = "transform"
        return frame

    def _land(self) -> DataFrame:
        """The source as files that its tasks write for the one sink."""
        (sink,) = self.query.sinks
        table = table_of(sink)
        table.begin()
        good_only = self._job.dead_letters is not None
        options = reader_options(self._job, self._job.source, self.query.checkpoint)
        self._landing = Landing(self._spark, options, table, good_only=good_only)
        return self._landing.frame

    def start(
        self,
        rows: DataFrame,
        writes: list[WriteBatch],
        triggered: Any,
        call: WriteBatch | None = None,
    ) -> Any:
        """Spark's query. `triggered` sets a trigger; `call` is called for each batch in place of `writes`."""

        def write(frame: DataFrame, batch: int) -> None:
            # A frame that several sinks read is computed once.
            kept = frame.persist() if len(writes) > 1 else frame
            self._prove()
            try:
                for sink, write in zip(self.query.sinks, writes, strict=True):
                    self.stage = f"sink {sink}"
                    write(kept, batch)
                self.stage = SOURCE
            finally:
                if kept is not frame:
                    kept.unpersist()

        if call is not None:
            self.stage = "sinks"
        name = f"{self._job.name}.{self.query.name}" if self.query.name else self._job.name
        writer = rows.writeStream.queryName(name).outputMode(self.query.output_mode)
        writer = triggered(writer.foreachBatch(call or write))
        return writer.option("checkpointLocation", self.query.checkpoint).start()

    def _prove(self) -> None:
        if self._shared is not None:
            self._shared.prove()

    def writes(self) -> list[WriteBatch]:
        """A function for each sink. Raises `PipelineError`."""
        return [self.writer(sink) for sink in self.query.sinks]

    def writer(self, sink: Sink) -> WriteBatch:
        if sink.kind == "topic":
            return self._topic_writer(sink)
        if sink.kind == "mirror":
            return self._mirror_writer(sink)
        if self._landing is not None:
            return self._landing_writer(self._landing)
        table = table_of(sink)
        table.begin()
        is_included = sink.kind != "iceberg"

        def write(frame: DataFrame, batch: int) -> None:
            nonlocal is_included
            if not is_included and self._shared is not None:
                # Its catalog knows the folder once the table is there.
                self._shared.include(table.land_in(frame.schema))
                self._shared.prove()
                is_included = True
            planned = digest_of(self.query.checkpoint, batch)
            table.append(frame, Batch(self._job.name, batch, planned))

        return write

    def _landing_writer(self, landing: Landing) -> WriteBatch:
        def write(files: DataFrame, batch: int) -> None:
            planned = digest_of(self.query.checkpoint, batch)
            self.landed[batch] = landing.take(files, Batch(self._job.name, batch, planned))

        return write

    def _topic_writer(self, sink: Sink) -> WriteBatch:
        publish = self._publish(sink)
        if self._job.sql or self._job.function or self._job.replay is not None:
            return publish
        if self._job.is_graph and self.query.reads in (step.name for step in self._job.steps):
            return publish

        def write(frame: DataFrame, batch: int) -> None:
            publish(frame.select(*[column for column in RECORD if column in frame.columns]), batch)

        return write

    def _publish(self, sink: Sink) -> WriteBatch:
        return publish_each_batch(
            sink.options,
            application=application_of(self._job, sink),
            staging=f"{self.query.checkpoint}/barnabas",
        )

    def _mirror_writer(self, sink: Sink) -> WriteBatch:
        """Records, then where they are: syncs and group offsets follow the batch that they are of."""
        mirror = self._job.mirror
        assert mirror is not None
        target = sink_options(sink.options, streaming=False)
        syncs = OffsetSyncs(target, mirror.alias)
        source = cluster_options(self._job.source.options).connect()
        self.groups = GroupCheckpoints(source, target, mirror.alias, mirror.groups, syncs)
        publish = self._publish(sink)
        name = f"concat('{mirror.alias}.', topic)" if mirror.alias else "topic"
        columns = ("key", "value", "headers", "`partition`", "timestamp", f"{name} as topic")

        def write(frame: DataFrame, batch: int) -> None:
            ends = offsets_of(self.query.checkpoint, batch)
            syncs.ensure_targets(ends)
            publish(frame.selectExpr(*columns), batch)
            syncs.committed(ends)

        return write


def reader_options(job: Job, source: Source, checkpoint: str) -> dict[str, str]:
    """The options of a reader; that of topics keeps where it begins and its topics' ids beside the query's
    `checkpoint`."""
    options = dict(source.options)
    if job.kind in ("mirror", "replay"):
        options = {**COMMITTED, **options, "includeHeaders": "true"}
    if job.replay is not None:
        options |= replay_options(job.replay)
    if source.is_topics and checkpoint and can_open(checkpoint):
        options["checkpointLocation"] = checkpoint
    return options


def can_open(place: str) -> bool:
    """Whether Python can open the place, as Spark can."""
    try:
        open_store(place)
    except StagingError:
        return False
    return True


def source_frame(spark: SparkSession, job: Job, source: Source, checkpoint: str) -> DataFrame:
    """A stream of the source's rows, for the query with that checkpoint."""
    options = reader_options(job, source, checkpoint)
    reader = spark.readStream.format(source.format).options(**options)
    if source.schema:
        reader = reader.schema(source.schema)
    return reader.load(source.files) if source.files else reader.load()


def table_of(sink: Sink) -> ParquetTable | DeltaTable | IcebergTable:
    """Raises `PipelineError` where a library is missing, or the catalog does not answer."""
    match sink.kind:
        case "parquet":
            return ParquetTable(sink.place, sink.rules.partition_by)
        case "delta":
            return DeltaTable(sink.place, sink.rules)
        case _:
            return IcebergTable(sink.place, sink.catalog, sink.rules)


def replay_options(replay: Replay) -> dict[str, str]:
    """The offsets where a replay begins; a partition without records that young is read from its end."""
    return {
        "startingTimestamp": str(replay.begin_ms),
        "startingOffsetsByTimestampStrategy": "latest",
        **REPLAYED_AT_ONCE,
    }


def replayed(frame: DataFrame, replay: Replay) -> DataFrame:
    """Records of the time, those that are out of order included as far as they are behind its first."""
    stamp = "unix_millis(timestamp)"
    wanted = f"{stamp} >= {replay.begin_ms}"
    if replay.end_ms is not None:
        wanted += f" and {stamp} < {replay.end_ms}"
    columns = [*RECORD, "timestamp"] if replay.keeps_timestamps else list(RECORD)
    return frame.where(wanted).select(*columns)


def application_of(job: Job, sink: Sink) -> str:
    """The name under which the job writes a topic, for ``pipeline ledger`` too."""
    return f"{job.name}.{sink.place}"
