"""One run of a job: Spark's queries for its sinks and dead letters, followed until they end.

Owns which queries a job has and what is said of them. A job without steps is one query whose sinks take the
same micro-batch; with steps each sink is a query of its own, whose checkpoint is ``sinks/<name>`` below the
job's (:mod:`query_run` is what becomes of a batch).

Dead letters are queries of their own, as the transformation may keep state: their checkpoint is the folder
``dead_letters`` of the job's, with a folder for each source where the job names its sources.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.pipeline.errors import PipelineError, StagingError
from barnabas.pipeline.jobs.connect import check_remote, is_connect, remote_session
from barnabas.pipeline.jobs.figures import QueryFigures, figures_of
from barnabas.pipeline.jobs.job_failures import RunFailedError, cause_in, failure_of
from barnabas.pipeline.jobs.job_file import SINKS, Job, Source
from barnabas.pipeline.jobs.job_offsets import fix_beginnings, position_of
from barnabas.pipeline.jobs.job_session import session_of
from barnabas.pipeline.jobs.landing import check_given
from barnabas.pipeline.jobs.query_run import (
    QueryRun,
    can_open,
    reader_options,
    source_frame,
    table_of,
)
from barnabas.pipeline.jobs.server_batch import ServerBatch
from barnabas.pipeline.jobs.shared_folders import SharedFolders
from barnabas.pipeline.places.bare_paths import place_for_session
from barnabas.pipeline.places.stores import DirectoryStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.5
START_POLL_S = 0.05
BEGINS = ("Initializing", "Getting offsets")
"""How Spark's status of a query begins before its readers have answered."""
WORKER_IS_LATE = "Python worker failed to connect back"
"""Spark says so where a Python process beside the driver is not there within 10 s; no setting raises that."""
STARTS = 10
"""How often a query is started whose readers are late; it has planned nothing yet."""
DEAD_LETTERS = "dead_letters"
GROUPS_S = 5.0
"""How often a mirror looks for what groups have committed."""


class Told(Protocol):
    """The figures of a batch or a finding: ``str`` is a line for people."""

    def describe(self) -> dict[str, Any]:
        """The same for programs."""


Tell = Callable[[Told], None]


@dataclass(slots=True)
class Running:
    """A query that runs: Spark's `handle`, and the sinks' side of it, None for dead letters."""

    handle: Any
    checkpoint: str
    run: QueryRun | None = None
    reported: int = -1

    @property
    def stage(self) -> str:
        return DEAD_LETTERS.replace("_", " ") if self.run is None else self.run.stage


class JobRun:
    """A job in a session; `tell` gets the figures of each micro-batch."""

    def __init__(self, job: Job, spark: SparkSession, tell: Tell) -> None:
        self._job = job
        self._spark = spark
        self._tell = tell
        self._is_remote = is_connect(spark)
        self._shared = None if self._is_remote else SharedFolders(spark, folders_of(job))
        self._runs = [QueryRun(job, query, spark, self._shared) for query in job.queries]
        self.figures: dict[str, QueryFigures] = {}
        """The figures of the last batch of each query, by its name."""
        self.batches = 0
        self.rows = 0

    def run(self, *, available_now: bool) -> None:
        """Until the records that are there now are written, or for ever. Raises `RunFailedError`."""
        running: list[Running] = []
        try:
            self._start_all(running, available_now=available_now)
            self._follow(running)
        finally:
            for run in running:
                run.handle.stop()
            if not self._is_remote:
                self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    def start(self, queries: list[Any], *, available_now: bool) -> None:
        """The job's queries, each put into `queries` when it runs. Raises `RunFailedError`."""
        running: list[Running] = []
        try:
            self._start_all(running, available_now=available_now)
        finally:
            queries += [run.handle for run in running]

    def _start_all(self, running: list[Running], *, available_now: bool) -> None:
        check_checkpoint(self._job)
        available_now = available_now or self._job.replay is not None
        for name, value in self._job.state.items():
            self._spark.conf.set(name, value)

        def triggered(writer: Any) -> Any:
            return self._triggered(writer, available_now)

        if not self._is_remote:
            self._fix_beginnings()
        for run in self._runs:
            with self._stages(run):
                rows = run.rows()
            with self._stages("sinks"):
                writes = [] if self._is_remote else run.writes()
            with self._stages("shared folders"):
                if self._shared is not None:
                    self._shared.prove()
            with self._stages("start"):
                call = ServerBatch(self._job, run.query) if self._is_remote else None
                start = partial(run.start, rows, writes, triggered, call)
                running.append(Running(started(start), run.query.checkpoint, run))
        if self._job.dead_letters is not None:
            for source in self._job.sources:
                if "value.format" in source.options:
                    with self._stages("start"):
                        running.append(self._start_dead_letters(source, triggered))

    def _fix_beginnings(self) -> None:
        """One beginning of each source for all queries that read it and begin together, before one starts."""
        for source in self._job.sources:
            reading = [
                run.query.checkpoint
                for run in self._runs
                if source in self._job.sources_of(run.query)
            ]
            if self._job.is_graph and all(map(can_open, reading)):
                # A sink that was added later begins at `startingOffsets`.
                reading = [place for place in reading if position_of(place).done_offsets] or reading
            if self._job.dead_letters is not None and "value.format" in source.options:
                reading.append(self._dead_checkpoint(source))
            if not source.is_topics or not reading or not all(map(can_open, reading)):
                continue
            try:
                fix_beginnings(reader_options(self._job, source, ""), reading)
            except PipelineError as error:
                cause = f"{type(error).__name__}: {error}"
                sentence = f"job {self._job.name} failed in stage source: {cause}"
                raise RunFailedError(sentence) from error

    def _dead_checkpoint(self, source: Source) -> str:
        checkpoint = f"{self._job.checkpoint}/{DEAD_LETTERS}"
        return f"{checkpoint}/{source.name}" if self._job.is_graph else checkpoint

    def _await(self, running: Running, seconds: float) -> bool:
        """Whether the query ends by itself within the time. Raises `RunFailedError` where it fails."""
        from pyspark.errors import StreamingQueryException

        try:
            return bool(running.handle.awaitTermination(seconds))
        except StreamingQueryException as error:
            place = running.checkpoint
            raise failure_of(self._job, running.stage, place, str(error)) from error

    def plan(self) -> str:
        """The plan that Spark makes of sources and steps; nothing is read."""
        plans = []
        for run in self._runs:
            heading = f"-- {run.query.name}\n" if run.query.name else ""
            rows = run.rows()
            plans.append(f"{heading}{rows._jdf.queryExecution().analyzed().toString()}")
        return "\n".join(plans)

    def _start_dead_letters(self, source: Source, triggered: Any) -> Running:
        from barnabas.pipeline.read.dead_letters import dead_letters

        assert self._job.dead_letters is not None
        checkpoint, name = self._dead_checkpoint(source), f"{self._job.name}.dead"
        if self._job.is_graph:
            name = f"{name}.{source.name}"
        # The headers name topic, partition and offset, whichever columns the job itself reads.
        options = {
            name: value for name, value in source.options.items() if name.lower() != "columns"
        }
        whole = replace(source, options=options)
        frame = source_frame(self._spark, self._job, whole, checkpoint)
        writer = triggered(dead_letters(frame).writeStream.format("barnabas")).queryName(name)
        options = {**self._job.dead_letters.options, "checkpointLocation": checkpoint}
        return Running(started(writer.options(**options).start), checkpoint)

    def _triggered(self, writer: Any, available_now: bool) -> Any:
        if available_now:
            return writer.trigger(availableNow=True)
        if self._job.trigger_ms is not None:
            return writer.trigger(processingTime=f"{self._job.trigger_ms} milliseconds")
        return writer

    def _follow(self, running: list[Running]) -> None:
        left = list(running)
        written_s = time.monotonic()
        groups = next((run.groups for run in self._runs), None)
        while left:
            if groups is not None and time.monotonic() - written_s > GROUPS_S:
                groups.write()
                written_s = time.monotonic()
            for run in tuple(left):
                if self._await(run, POLL_S / len(left)):
                    left.remove(run)
                self._report(run)
        if groups is not None:
            groups.write()

    def _report(self, running: Running) -> None:
        for progress in running.handle.recentProgress:
            if progress.batchId <= running.reported or not progress.numInputRows:
                continue
            running.reported = progress.batchId
            if running.run is None:
                continue
            rows = running.run.landed.pop(progress.batchId, None) or progress.numInputRows
            self.batches += 1
            self.rows += rows
            query = running.run.query
            sources = self._job.sources_of(query)
            found = figures_of(self._job, query.name, sources, progress, rows)
            self.figures[query.name] = found
            self._tell(found)

    @contextmanager
    def _stages(self, at: str | QueryRun) -> Iterator[None]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JError, PySparkException, ImportError, AttributeError, OSError) as error:
            stage = at if isinstance(at, str) else at.stage
            sentence = f"job {self._job.name} failed in stage {stage}: {cause_in(str(error))}"
            raise RunFailedError(sentence) from error


def started(start: Callable[[], Any]) -> Any:
    """A query whose readers are there: each is a Python process, and Spark gives up on one that is late, as
    several at once on a busy machine are. Such a query is started again."""
    from pyspark.errors import PySparkException

    for is_last in (*[False] * (STARTS - 1), True):
        try:
            handle = start()
        except PySparkException as error:
            if is_last or WORKER_IS_LATE not in str(error):
                raise
            continue
        while handle.isActive and str(handle.status["message"]).startswith(BEGINS):
            time.sleep(START_POLL_S)
        if is_last or handle.isActive or WORKER_IS_LATE not in str(handle.exception()):
            break
    return handle


def check_checkpoint(job: Job) -> None:
    """A checkpoint is that of one query, or has those of several below it. Raises `PipelineError`."""
    if not job.checkpoint:
        return
    try:
        store = open_store(job.checkpoint)
    except StagingError:
        return  # Spark knows the place, Python does not
    if job.is_graph and position_of(job.checkpoint).query:
        names = " or ".join(f"{job.checkpoint}/{SINKS}/{query.name}" for query in job.queries)
        raise PipelineError(
            f"{job.checkpoint} is the checkpoint of one query, from before the job had steps: move it, with"
            f" all that is in it, to {names}, whose sink then continues where the query was; or name a new"
            " checkpoint"
        )
    try:
        below = store.names(SINKS)
    except FileNotFoundError:
        return
    if below and not job.is_graph:
        raise PipelineError(
            f"{job.checkpoint} has checkpoints of a job with steps, in {SINKS}: name a new checkpoint"
        )


def folders_of(job: Job) -> list[str]:
    """Paths that tasks and driver of a job use. Those of Iceberg tables are included with the first batch,
    because the catalog chooses the folder of a new table."""
    places = [
        job.checkpoint,
        *(sink.place for sink in job.sinks if sink.kind in ("parquet", "delta")),
    ]
    return [folder for place in places if place and (folder := provable(place))]


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
    for sink in job.sinks:
        if sink.is_bare:
            sink = replace(sink, place=place_for_session(spark, sink.place, f"{sink.kind} table"))
        elif sink.kind == "iceberg" and not is_connect(spark):
            check_given(spark, table_of(sink))
        sinks.append(sink)
    return replace(job, checkpoint=checkpoint, sinks=tuple(sinks))


def run(
    job: Job,
    *,
    master: str,
    available_now: bool,
    settings: dict[str, str],
    log_level: str,
    tell: Tell,
    remote: str = "",
) -> tuple[int, int]:
    """Run to the end; batches and rows. With `remote` the session is a client's of Spark Connect. Raises
    `PipelineError`."""
    if remote:
        check_remote(job)
        spark = remote_session(remote)
        for name, value in settings.items():
            spark.conf.set(name, value)
    else:
        spark = session_of(job, master, {**job.state, **settings}, log_level)
    try:
        if job.audit is not None:
            from barnabas.pipeline.audit.audit_run import run_audit

            return run_audit(job.name, job.audit, job.source.options, spark, tell)
        for source in job.sources:
            if source.is_topics:
                from barnabas.pipeline.read.lag_listener import LagListener

                spark.streams.addListener(LagListener(source.options))
                break
        at_work = JobRun(placed(job, spark), spark, tell)
        at_work.run(available_now=available_now)
        return at_work.batches, at_work.rows
    finally:
        spark.stop()


def plan_of(job: Job, master: str) -> str:
    """Spark's plan of the job. Raises `PipelineError`."""
    spark = session_of(job, master, {}, "OFF")
    try:
        return JobRun(job, spark, lambda told: None).plan()
    finally:
        spark.stop()
