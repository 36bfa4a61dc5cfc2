"""A stream that reads, and writes in transactions, where every listener wants TLS and SASL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE, TARGET = "flights", "loud-flights"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True) as cluster:
        with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
            for name in (SOURCE, TARGET):
                client.create_topic(name, 2, 1)
        yield cluster


@pytest.fixture
def options(cluster: Cluster) -> dict[str, str]:
    secured = {f"kafka.{name}": each for name, each in cluster.client_properties.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap, **secured}


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, 1, 2).select(F.col("id").cast("string").alias("value"))


def copy(spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
    query = (
        spark.readStream.format("barnabas")
        .options(**options)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 200)
        .load()
        .select("value")
        .writeStream.format("barnabas")
        .options(**options)
        .option("topic", TARGET)
        .option("delivery", "transactions")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_writes_in_transactions_over_tls_and_sasl(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    assert options["kafka.security.protocol"] == "SASL_SSL"
    for first, end in ((0, 500), (500, 700)):  # the second run takes the transactional id over
        rows = numbers(spark, first, end).write.format("barnabas").mode("append")
        rows.options(**options, topic=SOURCE).save()
        copy(spark, options, tmp_path / "checkpoint")
    landed = (
        spark.read.format("barnabas")
        .options(**options)
        .option("subscribe", TARGET)
        .option("kafka.isolation.level", "read_committed")
        .load()
        .select(F.col("value").cast("string").cast("long").alias("n"), "partition", "offset")
        .collect()
    )
    assert sorted(each.n for each in landed) == list(range(700))
    ends: dict[int, int] = {}
    for each in landed:
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    assert sum(ends.values()) > 700  # markers of transactions have offsets too
