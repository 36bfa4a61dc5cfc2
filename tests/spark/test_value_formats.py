"""JSON values become columns in the worker; bad records go to a dead letter topic; narrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.read.dead_letters import dead_letters
from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_bad_values_of_a_typed_read_become_dead_letters(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    write(bootstrap, topic, [b'{"id":1,"name":"a"}', b"{broken", b'{"id":2,"when":"2024-01-01"}'])
    schema = tmp_path / "values.ddl"
    schema.write_text("id BIGINT, name STRING, `when` DATE")
    frame = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("value.format", "json")
        .option("value.schema", f"@{schema}")
        .load()
    )
    rows = frame.where("_error is null").selectExpr("data.*", "offset").orderBy("offset").collect()
    assert [(each.id, each.name, str(each.when)) for each in rows] == [
        (1, "a", "None"),
        (2, None, "2024-01-01"),
    ]
    (
        dead_letters(frame)
        .write.format("barnabas")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", dead)
        .save()
    )
    (letter,) = read(bootstrap, dead)
    assert letter.value == letter.key == b"{broken"
    headers = dict(letter.headers)
    assert headers["__connect.errors.topic"] == topic.encode()
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.exception.message"]
    narrow = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("columns", "offset")
        .load()
    )
    assert narrow.columns == ["offset"]
    assert narrow.count() == 3
