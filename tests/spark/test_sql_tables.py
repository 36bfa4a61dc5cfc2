"""Topics as tables of SQL, and as frames and views that live longer than a topic's state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.spark.conftest import MakeTopic
from tests.spark.test_beginnings import make_again
from tests.spark.topics import known_everywhere, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create(spark: SparkSession, name: str, **options: str) -> None:
    given = ", ".join(f"`{key}` '{value}'" for key, value in options.items())
    spark.sql(f"CREATE TABLE {name} USING barnabas OPTIONS ({given})")


def count(spark: SparkSession, of: str) -> int:
    return int(spark.sql(f"SELECT count(*) FROM {of}").first()[0])


def test_a_table_of_sql_is_selected_from_inserted_into_and_streamed(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    servers = {"kafka.bootstrap.servers": bootstrap}
    create(spark, "flights", **servers, subscribe=topic, topic=topic, startingOffsets="earliest")
    try:
        write(bootstrap, topic, [b"one", b"two"])
        assert count(spark, "flights") == 2
        spark.sql(
            "INSERT INTO flights (key, value) VALUES (cast('k' AS BINARY), cast('three' AS BINARY))"
        )
        assert count(spark, "flights") == 3
        values = "SELECT cast(value AS STRING) AS v FROM flights WHERE topic = '{}' ORDER BY v"
        found = [row.v for row in spark.sql(values.format(topic)).collect()]
        assert found == ["one", "three", "two"]
        assert (
            count(spark, f'flights WITH (\'endingOffsets\' = \'{{"{topic}":{{"0":0,"1":0}}}}\')')
            == 0
        )
        copy = make_topic(1)
        create(spark, "copies", **servers, subscribe=copy, topic=copy)
        spark.sql(
            "INSERT INTO copies SELECT key, value, topic, 0, offset, timestamp, timestampType FROM flights"
        )
        assert sorted(record.value or b"" for record in read(bootstrap, copy)) == [
            b"one",
            b"three",
            b"two",
        ]
        query = (
            spark.readStream.table("flights")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert spark.read.parquet(str(tmp_path / "out")).count() == 3
    finally:
        spark.sql("DROP TABLE IF EXISTS flights")
        spark.sql("DROP TABLE IF EXISTS copies")


def test_a_table_of_decoded_values_is_selected_from(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    write(bootstrap, topic, [b'{"n": 1, "at": "2024-02-29T12:00:00.123456789Z"}', b"bad"])
    create(
        spark,
        "typed",
        **{"kafka.bootstrap.servers": bootstrap, "value.format": "json"},
        **{"value.schema": "n BIGINT, at TIMESTAMP"},
        subscribe=topic,
        columns="value,offset",
    )
    try:
        rows = spark.sql(
            "SELECT data.n, cast(data.at AS STRING) AS at, _error FROM typed"
        ).collect()
        by_spark = spark.sql(
            "SELECT cast(from_json('{\"at\": \"2024-02-29T12:00:00.123456789Z\"}', 'at TIMESTAMP').at"
            " AS STRING)"
        ).first()[0]
        assert [(row.n, row.at) for row in rows] == [(1, by_spark), (None, None)]
        with pytest.raises(Exception, match=r"a table with value\.format is for reading"):
            spark.sql("INSERT INTO typed SELECT * FROM typed")
    finally:
        spark.sql("DROP TABLE typed")


def test_a_table_keeps_no_secret_and_says_what_is_missing(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    servers = {"kafka.bootstrap.servers": bootstrap}
    with pytest.raises(Exception, match=r"option kafka\.sasl\.jaas\.config is a secret"):
        create(spark, "secret", **servers, subscribe="t", **{"kafka.sasl.jaas.config": "x"})
    spark.sql("CREATE TABLE named (value BINARY) USING barnabas OPTIONS (`subscribe` 't')")
    try:
        with pytest.raises(Exception, match="where CREATE TABLE names columns itself"):
            count(spark, "named")
    finally:
        spark.sql("DROP TABLE named")


def test_a_frame_and_a_view_read_what_is_there_at_each_use(
    spark: SparkSession, bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    write(bootstrap, topic, [b"1", b"2", b"3"])
    frame = spark.read.format("barnabas").options(**options).load()
    fixed = spark.read.format("barnabas").options(**options, batchOffsets="first-use").load()
    frame.createOrReplaceTempView("moving")
    assert (frame.count(), fixed.count(), count(spark, "moving")) == (3, 3, 3)
    write(bootstrap, topic, [b"4", b"5", b"6", b"7"])
    assert (frame.count(), fixed.count(), count(spark, "moving")) == (7, 3, 7)
    where = TopicPartition(topic, 0, 2)
    admin.delete_records([where])[where].result(30)
    assert (frame.count(), count(spark, "moving")) == (5, 5)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    known_everywhere(bootstrap, topic, 2)
    write(bootstrap, topic, [b"8"], partition=1)
    assert frame.count() == 6
    make_again(admin, topic)
    known_everywhere(bootstrap, topic, 1)
    assert frame.count() == 0
    write(bootstrap, topic, [b"9"])
    assert [row.value for row in frame.collect()] == [b"9"]
