"""One Spark session for :mod:`bench.spark`: reads a job per line of JSON, runs it, and answers with one line.

:mod:`bench.spark` starts it with the interpreter whose pyspark it measures. Spark finds the format
``barnabas`` by itself where it is installed; the environment of Spark's own connector lacks it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

NAMES = "id BIGINT, flight STRING, origin STRING, delay INT, at BIGINT"
BATCHES_S = 300.0


def delivered(way: str) -> dict[str, str]:
    """Options of a delivery; ``tasks`` is exactly once by transactions of tasks."""
    if way == "tasks":
        return {"delivery": "exactly-once", "taskTransactions": "auto"}
    return {"delivery": way, "taskTransactions": "never"}


class Jobs:
    """The jobs that are measured. Each method returns what both formats have to agree on, or None."""

    def __init__(self, spark: Any, name: str, bootstrap: str) -> None:
        self.spark = spark
        self.format = name
        self.options = {"kafka.bootstrap.servers": bootstrap}

    def _read(self, topic: str, **more: str) -> Any:
        reader = self.spark.read.format(self.format).options(**self.options, **more)
        return reader.option("subscribe", topic).load()

    def _stream(self, topic: str, **more: str) -> Any:
        reader = self.spark.readStream.format(self.format).options(**self.options, **more)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def count(self, topic: str, narrowed: bool = False) -> Any:
        more = {"columns": "offset"} if narrowed and self.format == "barnabas" else {}
        return self._read(topic, **more).count()

    def scan(self, topic: str) -> Any:
        """Number of rows, and sums of lengths, offsets and hashes: two readers have to agree on them."""
        row = self._read(topic).selectExpr(
            "count(1)",
            "sum(length(value))",
            "sum(cast(offset as decimal(30)))",
            "sum(cast(xxhash64(value) as decimal(38)))",
        )
        return [str(each) for each in row.first()]

    def values(self, topic: str) -> Any:
        """As `scan`, for topics whose rows may lie in any partition."""
        row = self._read(topic, **{"kafka.isolation.level": "read_committed"}).selectExpr(
            "count(1)", "sum(cast(xxhash64(value) as decimal(38)))"
        )
        return [str(each) for each in row.first()]

    def json_table(self, topic: str, out: str) -> Any:
        from pyspark.sql.functions import col, from_json

        if self.format == "barnabas":
            more = {"value.format": "json", "value.schema": NAMES, "columns": "topic"}
            rows = self._read(topic, **more).select("data.*")
        else:
            parsed = from_json(col("value").cast("string"), NAMES)
            rows = self._read(topic).select(parsed.alias("data")).select("data.*")
        rows.write.mode("errorifexists").parquet(out)
        return None

    def stream_table(self, topic: str, out: str) -> Any:
        more = {"columns": "value"} if self.format == "barnabas" else {}
        writer = self._stream(topic, **more).select("value").writeStream.format("parquet")
        writer = writer.option("path", out).option("checkpointLocation", f"{out}.checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        return None

    def land(self, topic: str, out: str) -> Any:
        """As `stream_table`, by the landing job: the tasks that read also write the files."""
        from barnabas.pipeline.jobs.landing import land

        source = {
            **self.options,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "columns": "value",
        }
        query = land(
            self.spark, source, table=out, checkpoint=f"{out}.checkpoint", available_now=True
        )
        query.awaitTermination()
        return None

    def stream_topic(self, topic: str, target: str, out: str, delivery: str) -> Any:
        more = {"columns": "value"} if self.format == "barnabas" else {}
        writer = self._stream(topic, **more).select("value").writeStream.format(self.format)
        options = {**self.options, "topic": target, "kafka.compression.type": "lz4"}
        if self.format == "barnabas":
            options |= delivered(delivery)
        writer = writer.options(**options).option("checkpointLocation", f"{out}.checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        return None

    def small_triggers(self, topic: str, out: str, offsets: int, batches: int) -> Any:
        frame = self._stream(topic, maxOffsetsPerTrigger=str(offsets))
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{out}.checkpoint")
        query = writer.start()
        deadline = time.monotonic() + BATCHES_S
        while query.isActive and time.monotonic() < deadline:
            last = query.lastProgress
            if last is not None and last.batchId >= batches:
                break
            time.sleep(0.02)
        done = query.lastProgress.batchId
        query.stop()
        return {"batches": done}

    def start_copy(self, topic: str, target: str, out: str, delivery: str) -> Any:
        """Start to copy records that arrive from now on, until `stop_copy`. Returns after the first batch."""
        frame = self.spark.readStream.format(self.format).options(**self.options)
        frame = frame.option("subscribe", topic).load()
        writer = frame.select("value").writeStream.format(self.format)
        options = {**self.options, "topic": target}
        if self.format == "barnabas":
            options |= delivered(delivery)
        self.copy = (
            writer.options(**options).option("checkpointLocation", f"{out}.checkpoint").start()
        )
        while self.copy.isActive and not self.copy.recentProgress:
            time.sleep(0.05)
        if not self.copy.isActive:
            raise self.copy.exception()
        return None

    def stop_copy(self) -> Any:
        """Stop the copy. Returns medians of its recent batches in milliseconds: of all, and of each phase."""
        batches = [each for each in self.copy.recentProgress if each.numInputRows]
        self.copy.stop()
        phases: dict[str, list[int]] = {}
        for each in batches:
            for phase, took in each.durationMs.items():
                phases.setdefault(phase, []).append(took)
        medians = {phase: sorted(took)[len(took) // 2] for phase, took in sorted(phases.items())}
        return {"batch_ms": medians.get("triggerExecution"), "phases_ms": medians}


def main(name: str, bootstrap: str, directory: str, jars: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.local.dir", f"{directory}/tmp")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
    )
    start: AbstractContextManager[object] = nullcontext()
    if jars:
        builder = builder.config("spark.jars", jars)
    else:
        from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark

        start = compiled_pyspark()
    with start:
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jobs = Jobs(spark, name, bootstrap)
    print(json.dumps({"version": spark.version}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.monotonic()
        try:
            found = getattr(jobs, asked.pop("job"))(**asked)
        except Exception as error:  # noqa: BLE001  whatever a job raises is its answer
            print(json.dumps({"error": str(error)[:2000]}), flush=True)
            continue
        print(json.dumps({"seconds": time.monotonic() - began, "found": found}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
