"""A Spark program of its own: copies a topic to another, micro-batch by micro-batch, until it is
through or killed. Arguments: bootstrap, from, to, directory, delivery ("tasks" is
exactly once by transactions of tasks)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.spark.loopback_session import loopback_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(bootstrap: str, source: str, target: str, directory: str, delivery: str) -> None:
    spark = loopback_session("local[2]", {"spark.local.dir": f"{directory}/tmp"})
    copy(spark, bootstrap, source, target, directory, delivery)
    spark.stop()


def copy(
    spark: SparkSession, bootstrap: str, source: str, target: str, directory: str, delivery: str
) -> None:
    frame = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1500")
        .load()
    )
    # The shuffle gives the rows of a repeated micro-batch another order.
    query = (
        frame.selectExpr("key", "value")
        .repartition(3)
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("kafka.batch.size", "2000")
        .option("delivery", "exactly-once" if delivery == "tasks" else delivery)
        .option("taskTransactions", "always" if delivery == "tasks" else "never")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
