"""A Spark program of its own, as it is started from an environment that is not activated: a batch read, and
a write of a batch or a stream. Arguments: bootstrap, from, to, directory, and ``import`` or ``register``."""

from __future__ import annotations

import sys


def main(bootstrap: str, source: str, target: str, directory: str, how: str) -> None:
    if how == "import":
        import barnabas.pipeline  # noqa: F401  the documented line
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.local.dir", f"{directory}/tmp")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    if how == "register":
        from barnabas.pipeline.datasource import register  # the documented line

        register(spark)
    options = {"kafka.bootstrap.servers": bootstrap}
    reader = spark.read.format("barnabas").options(**options, subscribe=source)
    assert reader.load().count() == 10
    if how == "register":
        append = spark.range(10).selectExpr("cast(id as string) key", "cast(id as string) value")
        writer = append.write.format("barnabas").mode("append").options(**options, topic=target)
        writer.save()
        spark.stop()
        return
    stream = spark.readStream.format("barnabas").options(**options, subscribe=source)
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("delivery", "manifest")
        .option("checkpointLocation", "checkpoint")  # relative: in the working directory
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
