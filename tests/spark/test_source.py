"""Reading topics with Spark, in batch and as a stream."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def batch(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**options).load()


def values_of(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(each.value) for each in frame.select("value").collect())


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%06d" % each for each in range(first, end)]


def test_a_plain_session_reads_what_was_written(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        values = [codec.encode() + each for each in numbers(0, 200)]
        settings: dict[str, Any] = {"compression.type": codec}
        write(bootstrap, topic, values, **settings)
    rows = batch(spark, bootstrap, subscribe=topic, minPartitions=7).collect()
    found = sorted(
        (row.partition, row.offset, bytes(row.key), bytes(row.value), row.topic, row.timestampType)
        for row in rows
    )
    assert found == [
        (each.partition, each.offset, each.key, each.value, topic, 0)
        for each in read(bootstrap, topic)
    ]
    assert len(found) == 1000


def test_schema_and_headers_are_sparks(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    frame = spark.sql(
        "select 'k' key, 'v' value, array(struct('h' as key, cast('x' as binary) as value),"
        " struct('n' as key, cast(null as binary) as value)) headers"
        " union all select null, null, null"
    )
    frame.write.format("barnabas").mode("append").option(
        "kafka.bootstrap.servers", bootstrap
    ).option("topic", topic).save()
    found = batch(spark, bootstrap, subscribe=topic, includeHeaders="true")
    assert found.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = {row.key: row for row in found.collect()}
    assert rows[None].value is None and rows[None].headers is None
    assert [tuple(each) for each in rows[b"k"].headers] == [("h", b"x"), ("n", None)]
    written = {each.key: each.timestamp_ms for each in read(bootstrap, topic)}
    assert int(rows[b"k"].timestamp.timestamp() * 1000 + 0.5) == written[b"k"]


def test_offsets_bound_a_batch(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    write(bootstrap, topic, numbers(0, 10), partition=0)
    write(bootstrap, topic, numbers(100, 110), partition=1)
    frame = batch(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 4, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 6, "1": -1}}),
    )
    assert values_of(frame) == numbers(4, 6) + numbers(100, 110)
    one = batch(spark, bootstrap, assign=json.dumps({topic: [1]}))
    assert values_of(one) == numbers(100, 110)


def test_a_timestamp_bounds_a_batch(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    write(bootstrap, topic, numbers(0, 5))
    between = read(bootstrap, topic)[-1].timestamp_ms + 1
    while time.time() * 1000 <= between:
        time.sleep(0.001)
    write(bootstrap, topic, numbers(5, 9))
    later = batch(spark, bootstrap, subscribe=topic, startingTimestamp=between)
    assert values_of(later) == numbers(5, 9)
    earlier = batch(spark, bootstrap, subscribe=topic, endingTimestamp=between)
    assert values_of(earlier) == numbers(0, 5)


def test_wrong_options_are_one_sentence(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match="exactly one of subscribe"):
        batch(spark, bootstrap).collect()


class Stream:
    """A query that copies a topic to Parquet; each `run` takes in what is there and ends."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.directory = directory
        self.rows: list[int] = []

    def run(self, **options: Any) -> list[bytes]:
        """The values that the query has landed so far."""
        frame = (
            self.spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )
        query = (
            frame.select("value")
            .writeStream.format("parquet")
            .option("path", str(self.directory / "out"))
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()  # raises what ended it
        self.rows = [each.numInputRows for each in query.recentProgress if each.numInputRows]
        return values_of(self.spark.read.parquet(str(self.directory / "out")))


@pytest.fixture
def stream(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Stream:
    return Stream(spark, bootstrap, tmp_path)


def test_a_stream_continues_from_its_checkpoint(
    stream: Stream, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    write(bootstrap, topic, numbers(0, 1000))
    assert stream.run(subscribe=topic, maxOffsetsPerTrigger=400) == numbers(0, 1000)
    assert len(stream.rows) == 3 and max(stream.rows) <= 403
    write(bootstrap, topic, numbers(1000, 1300))
    assert stream.run(subscribe=topic) == numbers(0, 1300)
    assert stream.rows == [300]
    assert stream.run(subscribe=topic) == numbers(0, 1300)


def test_a_limit_of_bytes_makes_several_batches(
    stream: Stream, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    write(bootstrap, topic, numbers(0, 1000))
    assert stream.run(subscribe=topic, maxBytesPerTrigger=12_000) == numbers(0, 1000)
    assert 1 < len(stream.rows) < 10


def test_a_topic_that_comes_later_is_read_from_its_beginning(
    stream: Stream, bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    write(bootstrap, topic, numbers(0, 10))
    assert stream.run(subscribePattern=f"{topic}.*") == numbers(0, 10)
    admin.create_topics([NewTopic(f"{topic}-more", 2, -1)])[f"{topic}-more"].result(30)
    write(bootstrap, f"{topic}-more", numbers(10, 30))
    assert stream.run(subscribePattern=f"{topic}.*") == numbers(0, 30)


def test_lost_records_fail_the_query_unless_that_is_allowed(
    stream: Stream, bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    write(bootstrap, topic, numbers(0, 10))
    stream.run(subscribe=topic)
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.05)
    admin.create_topics([NewTopic(topic, 1, -1)])[topic].result(30)
    write(bootstrap, topic, numbers(50, 53))
    with pytest.raises(Exception, match="failOnDataLoss"):
        stream.run(subscribe=topic)
    stream.run(subscribe=topic, failOnDataLoss="false")
    write(bootstrap, topic, numbers(53, 65))
    assert set(numbers(60, 65)) <= set(stream.run(subscribe=topic, failOnDataLoss="false"))
