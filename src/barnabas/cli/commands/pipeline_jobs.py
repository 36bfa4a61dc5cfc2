"""``barnabas pipeline run | validate | explain | status | compact | doctor``: jobs from one file.

``validate`` needs neither Spark nor a cluster, ``explain`` and ``status`` ask the cluster and read the
checkpoint, ``compact`` works on tables. Only ``run``, ``explain --plan`` and
``doctor`` start Spark.
"""

from __future__ import annotations

import json
import logging
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, answer, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import counted, say
from barnabas.cli.watching import watched
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.jobs.job_file import Job, Query, Source
    from barnabas.pipeline.jobs.job_run import Told

T = TypeVar("T")

File = Annotated[str, typer.Argument(metavar="FILE", help="The job, a TOML file.")]
Master = Annotated[
    str, typer.Option("--master", help="Spark's master: local[*], spark://..., k8s://..., yarn.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of jobs to ``barnabas pipeline``."""
    for command in (run, validate, explain, status, compact, offsets, doctor):
        app.command()(command)


def run(
    file: File,
    master: Master = "local[*]",
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Write what is there now, then end.")
    ] = False,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's.")
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(
            "--remote", help="A server of Spark Connect instead of a master: sc://host:15002."
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option("--log-level", help="Of Spark's own log: OFF, ERROR, WARN, INFO.")
    ] = "OFF",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also warnings of Spark, Java and Python's packages.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Run a job: a line for each micro-batch with its rows, time by phase, rate and lag in offsets and
    seconds; until Ctrl-C without --available-now. A run that is started again continues where the last one
    was, each row once."""
    if verbose and log_level == "OFF":
        log_level = "WARN"
    if log_level == "OFF":
        warnings.simplefilter("ignore")
    job = _loaded(file)
    settings = _settings(conf)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)

    def work() -> tuple[int, int]:
        import barnabas.pipeline.jobs.job_run as job_run

        return job_run.run(
            job,
            master=master,
            available_now=available_now,
            settings=settings,
            log_level=log_level,
            tell=_tell_as_json if as_json else say,
            remote=remote or "",
        )

    count, rows = _asked(work)
    unit, units, what = "batch", "batches", "row"
    if job.audit is not None:
        unit, units, what = "replica", "replicas", "record"
    if as_json:
        say(json.dumps({"job": job.name, units: count, f"{what}s": rows}))
    else:
        wrong = "" if job.audit is None else ", nothing is wrong"
        say(f"{job.name}: {counted(rows, what)} in {counted(count, unit, units)}{wrong}")


def _tell_as_json(told: Told) -> None:
    say(json.dumps(told.describe()))


def validate(file: File, as_json: AsJson = False) -> None:
    """Check a job's file: each error with its line and key. Asks no cluster and starts no Spark."""
    job = _loaded(file)
    queries = [
        {
            "sinks": [str(sink) for sink in query.sinks],
            "sources": [source.name for source in job.sources_of(query)],
            "steps": [step.name for step in job.graph.above(query.reads)] if job.is_graph else [],
            "output_mode": query.output_mode,
            "checkpoint": query.checkpoint,
        }
        for query in job.queries
    ]
    lines = [
        f"  {query['sinks'][0]}: {', '.join(query['sources'])} >"
        f" {' > '.join(query['steps']) or '(no step)'}, {query['output_mode']};"
        f" checkpoint {query['checkpoint']}"
        for query in (queries if job.is_graph else ())
    ]
    answer(
        as_json,
        {"job": job.name, "kind": job.kind, "queries": queries},
        f"{file}: {job.name} is a job with {len(job.sinks)} sink(s)",
        *lines,
    )


def explain(
    file: File,
    plan: Annotated[
        bool, typer.Option("--plan", help="Also Spark's plan of source and transformation.")
    ] = False,
    master: Master = "local[1]",
    as_json: AsJson = False,
) -> None:
    """Show what a run that begins now would read, per partition, in rows and (by a sample) bytes of the
    log, and where it would write. Runs nothing."""
    job = _loaded(file)
    if job.audit is not None:
        raise Failure("an audit reads all that is there; run says what it found", USAGE)
    found: dict[str, Any] = {
        "job": job.name,
        "source": job.source.files or "topics",
        "sinks": [str(sink) for sink in job.sinks],
        "ranges": [],
    }
    for query in job.queries:
        for source in job.sources_of(query):
            if source.is_topics:
                found["ranges"] += _asked(lambda: _ranges(job, query, source))  # noqa: B023
    found["rows"] = sum(offsets["rows"] for offsets in found["ranges"])
    found["bytes"] = sum(offsets["bytes"] for offsets in found["ranges"])
    if plan:
        _check_installed("pyspark")
        from barnabas.pipeline.jobs.job_run import plan_of

        found["plan"] = _asked(lambda: plan_of(job, master))
    table = table_of(
        f"{job.name}: {found['rows']:,} rows, about {found['bytes']:,} bytes in the log,"
        f" to {', '.join(found['sinks'])}",
        *(("sink",) if job.is_graph else ()),
        "topic",
        "partition",
        "start",
        "end",
        "rows",
        "bytes",
    )
    for offsets in found["ranges"]:
        table.add_row(*(str(value) for value in offsets.values()))
    show(as_json, found, table)
    if plan and not as_json:
        say(found["plan"])


def _ranges(job: Job, query: Query, source: Source) -> list[dict[str, Any]]:
    """The ranges that the query would read of the source; with the name of its sink where there are
    several queries."""
    from barnabas.pipeline.jobs import job_offsets

    ranges = job_offsets.next_ranges(source, query.checkpoint)
    sizes = job_offsets.bytes_of(source, ranges) if ranges else []
    return [
        {
            **({"sink": query.name} if job.is_graph else {}),
            "topic": offsets.topic,
            "partition": offsets.partition,
            "start": offsets.start,
            "end": offsets.end,
            "rows": offsets.size,
            "bytes": size,
        }
        for offsets, size in zip(ranges, sizes, strict=True)
    ]


@watched
def status(file: File, as_json: AsJson = False) -> None:
    """How far a job is: by its checkpoint, its group, and the last batch that each sink has, by the token of
    a topic or the log of a table. No run needs to be under way."""
    job = _loaded(file)
    if job.audit is not None:
        raise Failure("an audit keeps no state; its report says what it found", USAGE)
    _check_installed("numpy", "pyarrow")
    from barnabas.pipeline.jobs.job_status import status_of

    found = _asked(lambda: status_of(job))
    table = table_of(
        job.name, *(("sink",) if job.is_graph else ()), "topic", "partition", "offset", "end", "lag",
        "in group",
    )  # fmt: skip
    headings = []
    for query in found.get("queries", [found]):
        name = query.get("name", "")
        headings.append(_how_far(query, f"{job.name}.{name}" if name else job.name, job.checkpoint))
        for partition in query["partitions"]:
            values = ("-" if value is None else str(value) for value in partition.values())
            table.add_row(*((name,) if name else ()), *values)
        for sink in query["sinks"]:
            has = "no batch" if sink["batch"] is None else f"batch {sink['batch']}"
            headings.append(f"{sink['sink']} has {sink.get('error', has)}")
    if not as_json:
        for line in headings:
            say(line)
    show(as_json, found, table)


def _how_far(query: dict[str, Any], name: str, checkpoint: str) -> str:
    """A query's batch, in a line."""
    if not query["query"]:
        return f"{name} has not run: {checkpoint} has no query of it"
    heading = f"{name}: batch {query['batch']} is done"
    if query["planned"] is not None:
        heading += f", batch {query['planned']} was begun"
    if query["group"]:
        heading += f"; group {query['group']}"
    return heading


def compact(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TABLE",
            help="A job's file, for all its tables, or the path of one Delta table or Parquet folder.",
        ),
    ],
    target_mib: Annotated[
        int, typer.Option("--target-mib", min=1, help="About so large are files to become.")
    ] = 128,
    as_json: AsJson = False,
) -> None:
    """Merge small files of tables into large ones. Delta and Iceberg tables: in one commit, while jobs and
    readers are at work. A Parquet folder has no log: stop its job and its readers before."""
    _check_installed("numpy", "pyarrow")
    from barnabas.pipeline.jobs.tables.compaction import compact_tables

    job = _loaded(target) if target.endswith(".toml") else None
    found = _asked(lambda: compact_tables(job, target, target_mib << 20))
    table = table_of(None, "table", "files merged", "into")
    for compacted in found:
        table.add_row(compacted.table, str(compacted.before), str(compacted.after))
    rows = [
        {"table": compacted.table, "before": compacted.before, "after": compacted.after}
        for compacted in found
    ]
    show(as_json, rows, table)


def offsets(
    file: File,
    group: Annotated[str | None, typer.Option("--group", help="One group only.")] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            "--commit", metavar="GROUP", help="Commit this group's in the target cluster."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Offsets of consumer groups in the target of a mirror, as the mirror translated them last. Asks the
    target only. A consumer that continues there reads nothing past, and a part of one micro-batch again."""
    job = _loaded(file)
    if job.mirror is None:
        raise Failure(f"{job.name} is a job of kind {job.kind}, not a mirror", USAGE)
    mirror = job.mirror
    _check_installed("numpy", "pyarrow", "pyspark")
    from barnabas.pipeline.mirror.group_offsets import commit_translated, translated_offsets
    from barnabas.pipeline.options import sink_options

    target = sink_options(mirror.target, streaming=False)
    found = _asked(lambda: translated_offsets(target, mirror.alias, commit or group))
    if commit is not None:
        if commit not in found:
            raise Failure(f"the mirror has no offsets of group {commit}")
        _asked(lambda: commit_translated(target, commit, found[commit]))
    table = table_of(None, "group", "topic", "partition", "offset in source", "offset in target")
    rows = [
        {
            "group": name,
            "topic": checkpoint.of.topic,
            "partition": checkpoint.of.partition,
            "source": checkpoint.upstream,
            "target": checkpoint.downstream,
        }
        for name, checkpoints in sorted(found.items())
        for _, checkpoint in sorted(checkpoints.items())
    ]
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    show(as_json, rows, table)
    if commit is not None and not as_json:
        say(f"group {commit} continues there")


def doctor(
    master: Master = "local[*]",
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help="Brokers that all are to reach.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", help="A folder that driver and executors are to share."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check what a pipeline needs: Java, pyspark, packages and Python of driver and executors, a folder for
    machine code, the way to the cluster, a shared checkpoint. Ends with 1 where something is not well."""
    _check_installed("pyspark")
    from barnabas.pipeline.jobs import doctor as checks

    found = checks.before_spark()
    if all(finding.is_well for finding in found):
        found += _asked(lambda: checks.with_spark(master, _settings(conf), bootstrap, checkpoint))
    table = table_of(None, "check", "", "found")
    for finding in found:
        table.add_row(finding.check, "ok" if finding.is_well else "NOT WELL", finding.said)
    rows = [
        {"check": finding.check, "ok": finding.is_well, "found": finding.said} for finding in found
    ]
    show(as_json, rows, table)
    bad = sum(not finding.is_well for finding in found)
    if bad:
        raise Failure(f"{bad} of {len(found)} checks are not well")


def _settings(conf: list[str] | None) -> dict[str, str]:
    settings = {}
    for setting in conf or []:
        name, equals, value = setting.partition("=")
        if not equals:
            raise Failure(f"--conf has KEY=VALUE, not {setting!r}", USAGE)
        settings[name] = value
    return settings


def _loaded(file: str) -> Job:
    _check_installed("numpy", "pyarrow", "pyspark")
    from barnabas.pipeline.jobs.job_file import JobFileError, load

    try:
        return load(file)
    except JobFileError as error:
        raise Failure(str(error), USAGE) from error


def _check_installed(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        needed = "pip install 'barnabas[spark]'"
        raise Failure(f"this command needs {' and '.join(missing)}: {needed}", USAGE)


def _asked(action: Callable[[], T]) -> T:
    from barnabas.pipeline.errors import PipelineError

    try:
        return action()
    except (PipelineError, KafkaError, ChannelError, OSError) as error:
        raise Failure(str(error)) from error
