"""A Spark program of its own: copies a topic to another, micro-batch by micro-batch, until it is
through or killed. Arguments: bootstrap, from, to, directory, delivery."""

from __future__ import annotations

import os
import sys


def main(bootstrap: str, source: str, target: str, directory: str, delivery: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        # A worker may be slow to come up where nodes and clients share two cores with it.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.local.dir", f"{directory}/tmp")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
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
        .option("delivery", delivery)
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
