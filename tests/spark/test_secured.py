"""A stream that reads, and writes in transactions, where every listener wants TLS and SASL.

It comes with a password, or with a delegation token, which is what a job should get instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from barnabas.client.delegation_tokens import create_token, expire_token
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SOURCE, TARGET = "flights", "loud-flights"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True) as cluster:
        with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
            for name in (SOURCE, TARGET):
                client.create_topic(name, 2, 1)
        yield cluster


def options(cluster: Cluster, properties: dict[str, str]) -> dict[str, str]:
    """What `properties` of a client are to Spark."""
    secured = {f"kafka.{name}": each for name, each in properties.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap, **secured}


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, 1, 2).select(F.col("id").cast("string").alias("value"))


def copy(
    spark: SparkSession, options: dict[str, str], source: str, target: str, checkpoint: Path
) -> None:
    query = (
        spark.readStream.format("barnabas")
        .options(**options)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 200)
        .load()
        .select("value")
        .writeStream.format("barnabas")
        .options(**options)
        .option("topic", target)
        .option("delivery", "transactions")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def landed(spark: SparkSession, options: dict[str, str], topic: str) -> list[Row]:
    rows: list[Row] = (
        spark.read.format("barnabas")
        .options(**options)
        .option("subscribe", topic)
        .option("kafka.isolation.level", "read_committed")
        .load()
        .select(F.col("value").cast("string").cast("long").alias("n"), "partition", "offset")
        .collect()
    )
    return rows


def test_a_stream_writes_in_transactions_over_tls_and_sasl(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    access = options(cluster, cluster.client_properties)
    assert access["kafka.security.protocol"] == "SASL_SSL"
    for first, end in ((0, 500), (500, 700)):  # the second run takes the transactional id over
        rows = numbers(spark, first, end).write.format("barnabas").mode("append")
        rows.options(**access, topic=SOURCE).save()
        copy(spark, access, SOURCE, TARGET, tmp_path / "checkpoint")
    found = landed(spark, access, TARGET)
    assert sorted(each.n for each in found) == list(range(700))
    ends: dict[int, int] = {}
    for each in found:
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    assert sum(ends.values()) > 700  # markers of transactions have offsets too


@pytest.mark.long
def test_a_stream_reads_and_writes_by_a_delegation_token(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    """No password reaches the job. A second run needs another token once the first one has expired."""
    source, target = "by-token", "by-token-copied"
    checkpoint = tmp_path / "checkpoint"
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        for name in (source, target):
            client.create_topic(name, 2, 1)
        tokens = [client.call(create_token(client.client)) for _ in range(2)]
    first, second = (options(cluster, t.properties(cluster.client_properties)) for t in tokens)
    assert 'tokenauth="true"' in first["kafka.sasl.jaas.config"]
    rows = numbers(spark, 0, 300).write.format("barnabas").mode("append")
    rows.options(**first, topic=source).save()
    copy(spark, first, source, target, checkpoint)
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.call(expire_token(client.client, tokens[0].hmac))
    with pytest.raises(Exception, match="invalid credentials"):
        copy(spark, first, source, target, checkpoint)
    rows = numbers(spark, 300, 400).write.format("barnabas").mode("append")
    rows.options(**second, topic=source).save()
    copy(spark, second, source, target, checkpoint)
    assert sorted(each.n for each in landed(spark, second, target)) == list(range(400))
