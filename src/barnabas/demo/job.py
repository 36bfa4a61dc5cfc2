"""The demo's pipeline: two jobs from files, as ``barnabas pipeline run`` runs them, in one process and
session.

``landing.toml`` reads topic ``flights`` and lands every flight once as Parquet, by month; ``delays.toml``
keeps delays per origin and hour of departure and writes what changed to topic ``delays``, once.

Talks to the demo in lines of JSON. On stdin it gets the settings, and later one more line, after which it
reads all remaining flights and ends. On stdout it reports progress. It does not know that a node will be
killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.jobs.job_file import parse
from barnabas.pipeline.jobs.job_run import JobRun
from barnabas.pipeline.warm_up import warm_up
from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

JOBS = ("landing", "delays")
"""Names of the files beside this one."""
REPORT_S = 0.5


def session(directory: str) -> SparkSession:
    """A session on two cores; Spark finds ``format("barnabas")`` without registration."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("barnabas demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # A worker may start slowly, since nodes and clients share two cores with it.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.local.dir", f"{directory}/tmp")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
    )
    with compiled_pyspark():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def started(
    spark: SparkSession, bootstrap: str, directory: str, access: Mapping[str, str]
) -> dict[str, StreamingQuery]:
    """Start the two jobs of the files in one session; `access` are further options for ``[cluster]``."""
    environment = {"KAFKA": bootstrap, "DATA": directory}
    queries: list[StreamingQuery] = []
    for name in JOBS:
        file = Path(__file__).with_name(f"{name}.toml")
        job = parse(str(file), with_access(file.read_text(encoding="utf-8"), access), environment)
        JobRun(job, spark, lambda _: None).start(queries, available_now=False)
    return dict(zip(JOBS, queries, strict=True))


def with_access(text: str, access: Mapping[str, str]) -> str:
    """The text of a job's file with the options `access` added to ``[cluster]``."""
    lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in access.items()]
    return text.replace("[cluster]\n", "\n".join(["[cluster]", *lines, ""]), 1)


def totals(query: StreamingQuery) -> dict[str, int]:
    """Sums over all micro-batches of a query: rows read, state rows changed, batches with rows."""
    rows: dict[int, int] = {}
    changed: dict[int, int] = {}
    for progress in query.recentProgress:
        rows[progress.batchId] = max(rows.get(progress.batchId, 0), progress.numInputRows)
        updated = sum(state.numRowsUpdated for state in progress.stateOperators)
        changed[progress.batchId] = max(changed.get(progress.batchId, 0), updated)
    return {
        "rows": sum(rows.values()),
        "changed": sum(changed.values()),
        "batches": sum(1 for count in rows.values() if count),
    }


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def report_until(done: threading.Event, queries: dict[str, StreamingQuery]) -> None:
    while not done.wait(REPORT_S):
        say(event="progress", **{name: totals(query) for name, query in queries.items()})


def run(read_line: Callable[[], str]) -> int:
    """Run the jobs until the demo asks for their end. Returns the exit status."""
    directory = sys.argv[1]
    compiling = threading.Thread(target=warm_up)  # while the JVM starts
    compiling.start()
    spark = session(directory)
    compiling.join()
    say(event="session", version=spark.version)
    settings = json.loads(read_line())
    queries = started(spark, settings["bootstrap"], directory, settings["access"])
    say(event="started")
    done = threading.Event()
    reporter = threading.Thread(target=report_until, args=(done, queries), daemon=True)
    reporter.start()
    read_line()  # all flights are acknowledged: read the rest
    for query in queries.values():
        query.processAllAvailable()
    done.set()
    reporter.join()
    say(event="finished", **{name: totals(query) for name, query in queries.items()})
    for query in queries.values():
        query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.stdin.readline))
