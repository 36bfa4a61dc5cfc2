"""One run of a job: a Spark query whose micro-batches go to each sink once.

Owns the query of a job: the source's frame, the transformation, and ``foreachBatch``, which writes every sink
under the batch's number (topics by :mod:`barnabas.pipeline.each_batch`, tables by their own logs). A batch
counts when all sinks have it; one that is repeated changes nothing in those that had it.

Dead letters are a query of their own, as the transformation may keep state: its checkpoint is the folder
``dead_letters`` of the job's.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.each_batch import publish_each_batch
from barnabas.pipeline.errors import PipelineError, StagingError
from barnabas.pipeline.jobs.batch_files import Batch
from barnabas.pipeline.jobs.delta_table import DeltaTable
from barnabas.pipeline.jobs.executor_errors import explained
from barnabas.pipeline.jobs.iceberg_table import IcebergTable
from barnabas.pipeline.jobs.job_file import Job, Replay, Sink
from barnabas.pipeline.jobs.job_offsets import digest_of, offsets_of, position_of, ranges_of
from barnabas.pipeline.jobs.landing import Landing, check_given
from barnabas.pipeline.jobs.parquet_table import ParquetTable
from barnabas.pipeline.jobs.shared_folders import SharedFolders
from barnabas.pipeline.mirror.group_offsets import GroupCheckpoints
from barnabas.pipeline.mirror.offset_syncs import OffsetSyncs
from barnabas.pipeline.options import cluster_options, sink_options
from barnabas.pipeline.places import s3_settings
from barnabas.pipeline.places.bare_paths import place_for_session
from barnabas.pipeline.read.lag import BEHIND
from barnabas.pipeline.workers import daemon
from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark, is_local
from barnabas.pipeline.workers.masters import check_master, why_not_started
from barnabas.pipeline.write.staging import DirectoryStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.5
VIEW = "source"
RECORD = ("key", "value", "headers")
RANGES_SHOWN = 8
DEAD_LETTERS = "dead_letters"
COMMITTED = {"kafka.isolation.level": "read_committed"}
REPLAYED_AT_ONCE = {"maxOffsetsPerTrigger": "1000000"}
GROUPS_S = 5.0
"""How often a mirror looks for what groups have committed."""

Say = Callable[[str], None]
WriteBatch = Callable[["DataFrame", int], None]


class RunFailedError(PipelineError):
    """A run ended: in which stage, with which records, why."""


class JobRun:
    """A job in a session; `say` gets a line for each micro-batch."""

    def __init__(self, job: Job, spark: SparkSession, say: Say) -> None:
        self._job = job
        self._spark = spark
        self._say = say
        self._stage = "source"
        self._seen: dict[str, int] = {}
        self._groups: GroupCheckpoints | None = None
        self._shared = SharedFolders(spark, folders_of(job))
        self._landing: Landing | None = None
        self._landed: dict[int, int | None] = {}
        """Rows of batches that tasks wrote; None where the table had the batch."""
        self.batches = 0
        self.rows = 0

    def run(self, *, available_now: bool) -> None:
        """Until the records that are there now are written, or for ever. Raises `RunFailedError`."""
        queries: list[Any] = []
        try:
            self.start(queries, available_now=available_now)
            self._follow(queries)
        finally:
            for each in queries:
                each.stop()
            self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    def start(self, queries: list[Any], *, available_now: bool) -> None:
        """The job's queries, each put into `queries` when it runs. Raises `RunFailedError`."""
        with self._stages("source"):
            frame = self._source()
        with self._stages("transform"):
            rows = self._land() if self._job.lands else self.transformed(frame)
            available_now = available_now or self._job.replay is not None
        with self._stages("sinks"):
            writes = [self._writer(each) for each in self._job.sinks]
        with self._stages("shared folders"):
            self._shared.prove()
        with self._stages("start"):
            queries.append(self._start(rows, writes, available_now))
            if self._job.dead_letters is not None:
                queries.append(self._start_dead_letters(frame, available_now))

    def plan(self) -> str:
        """What Spark makes of source and transformation; nothing is read."""
        rows = self.transformed(self._source())
        return str(rows._jdf.queryExecution().analyzed().toString())

    def _source(self) -> DataFrame:
        source = self._job.source
        options = dict(source.options)
        if self._job.kind in ("mirror", "replay"):
            options = {**COMMITTED, **options, "includeHeaders": "true"}
        if self._job.replay is not None:
            options |= replay_options(self._job.replay)
        reader = self._spark.readStream.format(source.format).options(**options)
        if source.schema:
            reader = reader.schema(source.schema)
        return reader.load(source.files) if source.files else reader.load()

    def _land(self) -> DataFrame:
        """The source as files that its tasks write for the one sink."""
        (sink,) = self._job.sinks
        table = table_of(sink)
        table.begin()
        good_only = self._job.dead_letters is not None
        self._landing = Landing(self._spark, self._job.source.options, table, good_only=good_only)
        return self._landing.frame

    def transformed(self, frame: DataFrame) -> DataFrame:
        """What goes to the sinks. Bad values are left out where they go to dead letters."""
        if self._job.dead_letters is not None:
            frame = frame.where("`_error` is null")
        if self._job.replay is not None:
            return replayed(frame, self._job.replay)
        if self._job.sql:
            frame.createOrReplaceTempView(VIEW)
            return self._spark.sql(self._job.sql)
        if self._job.function:
            return function_of(self._job, self._spark)(frame)
        return frame

    def _start(self, rows: DataFrame, writes: list[WriteBatch], available_now: bool) -> Any:
        def write(frame: DataFrame, batch: int) -> None:
            # A frame that several sinks read is computed once.
            kept = frame.persist() if len(writes) > 1 else frame
            self._shared.prove()
            try:
                for sink, each in zip(self._job.sinks, writes):
                    self._stage = f"sink {sink}"
                    each(kept, batch)
                self._stage = "source"
            finally:
                if kept is not frame:
                    kept.unpersist()

        writer = rows.writeStream.queryName(self._job.name).outputMode(self._job.output_mode)
        writer = self._triggered(writer.foreachBatch(write), available_now)
        return writer.option("checkpointLocation", self._job.checkpoint).start()

    def _start_dead_letters(self, frame: DataFrame, available_now: bool) -> Any:
        from barnabas.pipeline.read.dead_letters import dead_letters

        assert self._job.dead_letters is not None
        writer = dead_letters(frame).writeStream.format("barnabas")
        writer = self._triggered(writer, available_now).queryName(f"{self._job.name}.dead")
        options = {**self._job.dead_letters.options, "checkpointLocation": self._dead_checkpoint()}
        return writer.options(**options).start()

    def _dead_checkpoint(self) -> str:
        return f"{self._job.checkpoint}/{DEAD_LETTERS}"

    def _triggered(self, writer: Any, available_now: bool) -> Any:
        if available_now:
            return writer.trigger(availableNow=True)
        if self._job.trigger_ms is not None:
            return writer.trigger(processingTime=f"{self._job.trigger_ms} milliseconds")
        return writer

    def _writer(self, sink: Sink) -> WriteBatch:
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
            if not is_included:  # its catalog knows the folder once the table is there
                self._shared.include(table.land_in(frame.schema))
                self._shared.prove()
                is_included = True
            planned = digest_of(self._job.checkpoint, batch)
            table.append(frame, Batch(self._job.name, batch, planned))

        return write

    def _landing_writer(self, landing: Landing) -> WriteBatch:
        def write(files: DataFrame, batch: int) -> None:
            planned = digest_of(self._job.checkpoint, batch)
            self._landed[batch] = landing.take(files, Batch(self._job.name, batch, planned))

        return write

    def _topic_writer(self, sink: Sink) -> WriteBatch:
        publish = publish_each_batch(
            sink.options,
            application=application_of(self._job, sink),
            staging=f"{self._job.checkpoint}/barnabas",
        )
        if self._job.sql or self._job.function or self._job.replay is not None:
            return publish

        def write(frame: DataFrame, batch: int) -> None:
            publish(frame.select(*[each for each in RECORD if each in frame.columns]), batch)

        return write

    def _mirror_writer(self, sink: Sink) -> WriteBatch:
        """Records, then where they are: syncs and group offsets follow the batch that they are of."""
        mirror = self._job.mirror
        assert mirror is not None
        target = sink_options(sink.options, streaming=False)
        syncs = OffsetSyncs(target, mirror.alias)
        source = cluster_options(self._job.source.options).connect()
        self._groups = GroupCheckpoints(source, target, mirror.alias, mirror.groups, syncs)
        publish = publish_each_batch(
            sink.options,
            application=application_of(self._job, sink),
            staging=f"{self._job.checkpoint}/barnabas",
        )
        name = f"concat('{mirror.alias}.', topic)" if mirror.alias else "topic"
        columns = ("key", "value", "headers", "`partition`", "timestamp", f"{name} as topic")

        def write(frame: DataFrame, batch: int) -> None:
            ends = offsets_of(self._job.checkpoint, batch)
            syncs.ensure_targets(ends)
            publish(frame.selectExpr(*columns), batch)
            syncs.committed(ends)

        return write

    def _follow(self, queries: list[Any]) -> None:
        from pyspark.errors import StreamingQueryException

        left = list(queries)
        written_s = time.monotonic()
        while left:
            if self._groups is not None and time.monotonic() - written_s > GROUPS_S:
                self._groups.write()
                written_s = time.monotonic()
            for query in tuple(left):
                try:
                    if query.awaitTermination(POLL_S / len(left)):
                        left.remove(query)
                except StreamingQueryException as error:
                    raise self._failed(error, is_dead=query is not queries[0]) from error
                self._report(query, is_dead=query is not queries[0])
        if self._groups is not None:
            self._groups.write()

    def _report(self, query: Any, *, is_dead: bool) -> None:
        for each in query.recentProgress:
            if each.batchId <= self._seen.get(query.id, -1) or not each.numInputRows:
                continue
            self._seen[query.id] = each.batchId
            if is_dead:
                continue
            rows = self._landed.pop(each.batchId, None) or each.numInputRows
            self.batches += 1
            self.rows += rows
            self._say(progress_line(each, rows))

    def _failed(self, error: Exception, *, is_dead: bool) -> RunFailedError:
        checkpoint = self._dead_checkpoint() if is_dead else self._job.checkpoint
        stage = "dead letters" if is_dead else self._stage
        return failure_of(self._job, stage, checkpoint, str(error))

    @contextmanager
    def _stages(self, stage: str) -> Iterator[None]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JError, PySparkException, ImportError, AttributeError, OSError) as error:
            sentence = f"job {self._job.name} failed in stage {stage}: {cause_in(str(error))}"
            raise RunFailedError(sentence) from error


def folders_of(job: Job) -> list[str]:
    """Paths that tasks and driver of a job use. Those of Iceberg tables are included with the first batch,
    because the catalog chooses the folder of a new table."""
    places = [
        job.checkpoint,
        *(each.place for each in job.sinks if each.kind in ("parquet", "delta")),
    ]
    return [folder for each in places if each and (folder := provable(each))]


def provable(place: str) -> str | None:
    """The place as a path where it is a folder of each machine, else as a URI; None where Python cannot open
    it."""
    try:
        store = open_store(place)
    except StagingError:
        return None
    return store.root if isinstance(store, DirectoryStore) else place


def placed(job: Job, spark: SparkSession) -> Job:
    """The job with its bare paths where Spark has them. Raises `StagingError` on a cluster that has them
    nowhere."""
    checkpoint = job.checkpoint
    if checkpoint:
        checkpoint = place_for_session(spark, checkpoint, "checkpoint")
    sinks = []
    for each in job.sinks:
        if each.is_bare:
            each = replace(each, place=place_for_session(spark, each.place, f"{each.kind} table"))
        elif each.kind == "iceberg":
            check_given(spark, table_of(each))
        sinks.append(each)
    return replace(job, checkpoint=checkpoint, sinks=tuple(sinks))


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
    """Where a replay begins; a partition without records that young is read from its end."""
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


def progress_line(progress: Any, rows: int) -> str:
    """One micro-batch: rows, time, rate, how far the query is behind then."""
    took_ms = progress.batchDuration
    rate = rows * 1000 / max(took_ms, 1)
    line = f"batch {progress.batchId}: {rows:,} rows in {took_ms / 1000:.1f} s"
    line += f" ({rate:,.0f} rows/s)"
    for source in progress.sources:
        found = re.search(
            rf'"{re.escape(BEHIND)}"\s*:\s*{{[^}}]*"offsets"\s*:\s*(\d+)', source.latestOffset or ""
        )
        if found is not None:
            line += f", {int(found[1]):,} behind"
    return line


def failure_of(job: Job, stage: str, checkpoint: str, text: str) -> RunFailedError:
    """The sentence of a query that failed in a batch: its stage, its records, the cause."""
    at = position_of(checkpoint)
    if "/pipeline/read/" in text and "/pipeline/write/" not in text:
        stage = f"source, read for {stage}" if stage != "source" else stage
    where = f"job {job.name} failed in stage {stage}"
    if at.planned > at.done:
        where += f", batch {at.planned}"
        ranges = [each for each in ranges_of(at.done_offsets, at.planned_offsets) if each.size]
        if at.done_offsets is None and at.planned_offsets:
            ends = ", ".join(f"{each} up to {end}" for each, end in at.planned_offsets.items())
            where += f" (its first: {ends})"
        elif ranges:
            shown = ", ".join(str(each) for each in ranges[:RANGES_SHOWN])
            more = f" and {len(ranges) - RANGES_SHOWN} more" if len(ranges) > RANGES_SHOWN else ""
            where += f" ({sum(each.size for each in ranges):,} records: {shown}{more})"
    return RunFailedError(f"{where}: {cause_in(text)}")


def cause_in(text: str) -> str:
    """The last Python error that a text with Java's and Python's traces names, else its first line."""
    sentence = explained(text)
    if sentence is not None:
        return sentence
    text = text.split("JVM stacktrace:")[0]
    found = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", text, re.MULTILINE)
    own = [f"{name}: {said}" for name, said in found if not name.startswith("Py")]
    if own:
        return own[-1]
    return next((each.strip() for each in text.splitlines() if each.strip()), "no reason is given")


def function_of(job: Job, spark: SparkSession) -> Callable[[DataFrame], DataFrame]:
    """The job's Python function. Its module is looked for beside the file first, and sent to executors."""
    name, _, attribute = job.function.partition(":")
    folder = str(Path(job.file).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    file = Path(folder, *name.split(".")).with_suffix(".py")
    if file.is_file() and "." not in name:
        spark.sparkContext.addPyFile(str(file))
    found: Callable[[DataFrame], DataFrame] = getattr(import_module(name), attribute)
    return found


def missing_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    if shutil.which(java) is None:
        return (
            f"Spark needs Java 17 or newer, and {java} is not there: install one or set JAVA_HOME"
        )
    return None


def session_of(job: Job, master: str, settings: dict[str, str], log_level: str) -> SparkSession:
    """A session for the job, whose workers begin with this package loaded; `settings` go before what is set
    here. Raises `PipelineError`."""
    settings = {"spark.python.daemon.module": daemon.MODULE, **settings}
    return session_with(job.name, master, settings, log_level)


def session_with(name: str, master: str, settings: dict[str, str], log_level: str) -> SparkSession:
    """As `session_of`, by the application's name."""
    missing = missing_java()
    if missing is not None:
        raise PipelineError(missing)
    check_master(master, settings)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    ours = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.showConsoleProgress": "false",
        # A Python process may be slow to come up on a busy machine; 15 s is Spark's own.
        "spark.python.authenticate.socketTimeout": "60s",
    }
    if master.startswith("local"):
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in s3_settings.shared_out({**ours, **settings}, os.environ).items():
        builder = builder.config(key, value)
    try:
        with compiled_pyspark() if is_local(master) else nullcontext():
            spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise why_not_started(master, error) from error
    spark.sparkContext.setLogLevel(log_level)
    return spark


def run(
    job: Job,
    *,
    master: str,
    available_now: bool,
    settings: dict[str, str],
    log_level: str,
    say: Say,
) -> tuple[int, int]:
    """Run to the end; batches and rows. Raises `PipelineError`."""
    spark = session_of(job, master, settings, log_level)
    try:
        if job.audit is not None:
            from barnabas.pipeline.audit.audit_run import run_audit

            return run_audit(job, spark, say)
        if job.source.is_topics:
            from barnabas.pipeline.read.lag_listener import LagListener

            spark.streams.addListener(LagListener(job.source.options))
        at_work = JobRun(placed(job, spark), spark, say)
        at_work.run(available_now=available_now)
        return at_work.batches, at_work.rows
    finally:
        spark.stop()


def plan_of(job: Job, master: str) -> str:
    """Spark's plan of the job. Raises `PipelineError`."""
    spark = session_of(job, master, {}, "OFF")
    try:
        return JobRun(job, spark, lambda line: None).plan()
    finally:
        spark.stop()
