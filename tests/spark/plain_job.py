"""A Spark program of its own, as it is started from an environment that is not activated: a batch read, and
a write of a batch or a stream. Arguments: bootstrap, from, to, directory, and ``import``, ``register`` or
``session``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(bootstrap: str, source: str, target: str, directory: str, how: str) -> None:
    if how == "import":
        import barnabas.pipeline  # noqa: F401  the documented line
    if how == "session":
        from barnabas.pipeline import session  # the documented line

        settings = {"spark.driver.host": "127.0.0.1", "spark.local.dir": f"{directory}/tmp"}
        with_udf(session("local[1]", **settings), bootstrap, source, target)
        return
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


def with_udf(spark: SparkSession, bootstrap: str, source: str, target: str) -> None:
    """Nothing names an interpreter for UDFs, nor for the source."""
    from pyspark.sql import functions as f

    @f.udf("string")
    def louder(value: bytes) -> str:
        import barnabas

        return f"{value.decode()} {barnabas.__name__}"

    options = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.read.format("barnabas").options(**options, subscribe=source).load()
    rows = rows.select(louder("value").alias("value"))
    rows.write.format("barnabas").mode("append").options(**options, topic=target).save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
