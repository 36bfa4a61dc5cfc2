"""The demo's pipeline: what a user would write for Spark, as a process of its own.

Reads topic ``flights`` as a stream; lands every flight once as Parquet, partitioned by month; keeps
delays per origin and hour of departure and writes what changed to topic ``delays``, once.

Speaks with the demo in lines of JSON: on stdin the settings, later anything that means "take in what
is there and end"; on stdout progress. Nothing here knows that a node is going to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.each_batch import publish_each_batch
from barnabas.pipeline.warm_up import warm_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FLIGHT = (
    "row long, year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int,"
    " arr_time int, sched_arr_time int, arr_delay int, carrier string, flight int,"
    " tailnum string, origin string, dest string, air_time int, distance int, hour int,"
    " minute int, time_hour string"
)
TRIGGER = "2 seconds"
REPORT_S = 0.5


def session(directory: str) -> SparkSession:
    """A session on two cores; ``format("barnabas")`` is found by itself."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("barnabas demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # A worker may be slow to come up where nodes and clients share two cores with it.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", f"{directory}/tmp")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def flights(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The stream of flights, from the beginning of the topic."""
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr(
            f"from_json(cast(value as string), '{FLIGHT}') as flight", "partition", "offset"
        )
        .select("flight.*", "partition", "offset")
    )


def land(frame: DataFrame, directory: str) -> StreamingQuery:
    """Every flight once, as Parquet by month."""
    return (
        frame.writeStream.queryName("landing")
        .format("parquet")
        .partitionBy("month")
        .option("path", f"{directory}/flights")
        .option("checkpointLocation", f"{directory}/checkpoints/landing")
        .trigger(processingTime=TRIGGER)
        .start()
    )


def delays(frame: DataFrame, bootstrap: str, directory: str) -> StreamingQuery:
    """Delays per origin and hour so far, to topic ``delays`` whenever they changed."""
    sums = frame.groupBy("origin", "hour").agg(
        *_sums(
            flights="count(*)",
            distance="sum(distance)",
            departures="count(dep_delay)",
            departure_delay="coalesce(sum(dep_delay), 0)",
            arrivals="count(arr_delay)",
            arrival_delay="coalesce(sum(arr_delay), 0)",
        )
    )
    records = sums.selectExpr(
        "format_string('%s-%02d', origin, hour) as key",
        "to_json(struct(flights, distance, departures, departure_delay, arrivals, arrival_delay))"
        " as value",
    )
    checkpoint = f"{directory}/checkpoints/delays"
    publish = publish_each_batch(
        {"kafka.bootstrap.servers": bootstrap, "topic": "delays", "kafka.compression.type": "lz4"},
        application="delays",
        staging=f"{checkpoint}/barnabas",
    )
    return (
        records.writeStream.queryName("delays")
        .outputMode("update")
        .foreachBatch(publish)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=TRIGGER)
        .start()
    )


def _sums(**expressions: str) -> list[Any]:
    from pyspark.sql import functions

    return [functions.expr(text).alias(name) for name, text in expressions.items()]


def totals(query: StreamingQuery) -> dict[str, int]:
    """Rows taken in and rows changed over all of a query's micro-batches."""
    rows: dict[int, int] = {}
    changed: dict[int, int] = {}
    for each in query.recentProgress:
        rows[each.batchId] = max(rows.get(each.batchId, 0), each.numInputRows)
        updated = sum(state.numRowsUpdated for state in each.stateOperators)
        changed[each.batchId] = max(changed.get(each.batchId, 0), updated)
    return {
        "rows": sum(rows.values()),
        "changed": sum(changed.values()),
        "batches": sum(1 for each in rows.values() if each),
    }


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def report_until(done: threading.Event, queries: dict[str, StreamingQuery]) -> None:
    while not done.wait(REPORT_S):
        say(event="progress", **{name: totals(query) for name, query in queries.items()})


def run(read_line: Callable[[], str]) -> int:
    """Settings, queries, progress, end. Returns the exit status."""
    directory = sys.argv[1]
    compiling = threading.Thread(target=warm_up)  # while the JVM starts
    compiling.start()
    spark = session(directory)
    compiling.join()
    say(event="session", version=spark.version)
    settings = json.loads(read_line())
    bootstrap = settings["bootstrap"]
    queries = {
        "landing": land(flights(spark, bootstrap), directory),
        "delays": delays(flights(spark, bootstrap), bootstrap, directory),
    }
    say(event="started")
    done = threading.Event()
    reporter = threading.Thread(target=report_until, args=(done, queries), daemon=True)
    reporter.start()
    read_line()  # all is acknowledged: take in the rest
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
