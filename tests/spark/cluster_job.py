"""A Spark program of its own on a standalone cluster: copies a topic to another, as a stream or as one batch.

A task that finds ``hold-<stage>`` in the control folder takes the file, gives half of its rows, says in
``held-<stage>`` in which working directory it is, and gives no more: what has to be killed in the middle of a
stage is killed then. Arguments: stream or batch, master, bootstrap, from, to, directory, and
where tasks stage if that is elsewhere than beside the checkpoint.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.spark.loopback_session import loopback_session

if TYPE_CHECKING:
    import pyarrow as pa

HELD_S = 240


def holding(
    control: str, stage: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of rows that stays in the middle of them where it is asked to."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for each in batches:
            if each.num_rows < 2:
                yield each
                continue
            half = each.num_rows // 2
            yield each.slice(0, half)
            try:
                os.rename(f"{control}/hold-{stage}", f"{control}/taken-{stage}")
            except FileNotFoundError:
                yield each.slice(half)
                continue
            with open(f"{control}/held.tmp", "w") as file:
                file.write(os.getcwd())
            os.rename(f"{control}/held.tmp", f"{control}/held-{stage}")
            time.sleep(HELD_S)
            raise RuntimeError("what held this task was not killed")

    return hold


def copied(frame: Any, directory: str) -> Any:
    """Rows of both stages: the one that reads, and behind a shuffle the one that writes."""
    control = f"{directory}/control"
    rows = frame.selectExpr("key", "value")
    rows = rows.mapInArrow(holding(control, "read"), "key binary, value binary").repartition(3)
    return rows.mapInArrow(holding(control, "write"), "key binary, value binary")


def main(
    kind: str,
    master: str,
    bootstrap: str,
    source: str,
    target: str,
    directory: str,
    staging: str = "",
) -> None:
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    }
    spark = loopback_session(master, settings, "ERROR")
    options = {"kafka.bootstrap.servers": bootstrap}
    reading = {**options, "subscribe": source, "startingOffsets": "earliest"}
    writing = {**options, "topic": target, "delivery": "exactly-once", "kafka.batch.size": "2000"}
    if staging:
        writing["stagingLocation"] = staging
        writing["taskTransactions"] = "never"  # else tasks stage nothing
    if kind == "batch":
        frame = spark.read.format("barnabas").options(**reading).load()
        writer = copied(frame, directory).write.format("barnabas").mode("append")
        writer.options(**writing, txnAppId=target, txnVersion="0").save()
    else:
        limits = {"maxOffsetsPerTrigger": "1500", "maxOffsetsInDriver": "0"}  # tasks are killed
        frame = spark.readStream.format("barnabas").options(**reading, **limits)
        query = (
            copied(frame.load(), directory)
            .writeStream.format("barnabas")
            .options(**writing, checkpointLocation=f"file://{directory}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
