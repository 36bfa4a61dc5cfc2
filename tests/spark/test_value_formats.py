"""JSON, Avro and Protobuf values become columns in the worker; bad ones dead letters; narrow reads."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.pipeline.read.dead_letters import dead_letters
from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write
from tests.unit.pipeline.formats.descriptors import base64_of, flight_file, place_file
from tests.unit.pipeline.formats.registry_server import registry_server
from tests.unit.pipeline.formats.test_avro_values import datum

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


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


def test_values_with_schemas_of_a_registry_become_columns(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    with registry_server("ann:secret") as registry:
        flights, trains, cars = make_topic(1), make_topic(1), make_topic(1)
        kept = [{"name": "id", "type": "long"}, {"name": "at", "type": MILLIS}]
        schema = {"type": "record", "name": "Flight", "fields": kept}
        old = registry.register(f"{flights}-value", json.dumps(schema))
        new_schema = {
            **schema,
            "fields": [*kept, {"name": "to", "type": ["null", "string"], "default": None}],
        }
        new = registry.register(f"{flights}-value", json.dumps(new_schema))
        at = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
        first = datum(schema, {"id": 1, "at": at}, old)
        second = datum(new_schema, {"id": 2, "at": at, "to": "JFK"}, new)
        write(bootstrap, flights, [first, b"{broken", second])

        def rows(topic: str, **options: str) -> list[Any]:
            reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
            reader = reader.option("value.schema.registry", registry.url).option("subscribe", topic)
            reader = reader.option("value.schema.registry.user", "ann")
            reader = reader.option("value.schema.registry.password", "secret")
            for name, value in options.items():
                reader = reader.option(name, value)
            frame = reader.load()
            return list(frame.selectExpr("data.*", "_error", "value").orderBy("offset").collect())

        one, bad, two = rows(flights, **{"value.format": "avro"})
        assert (one.id, str(one.at), one.to, one._error) == (1, "2024-02-29 00:00:00", None, None)
        assert (two.id, two.to, bytes(two.value)) == (2, "JFK", second)
        assert (bad.id, bytes(bad.value)) == (None, b"{broken")
        assert "no schema id" in bad._error

        registry.register("place", base64_of(place_file()), kind="PROTOBUF")
        reference = {"name": "place.proto", "subject": "place", "version": 1}
        number = registry.register(
            f"{trains}-value", base64_of(flight_file()), kind="PROTOBUF", references=[reference]
        )
        write(
            bootstrap, trains, [b"\0" + number.to_bytes(4, "big") + b"\2\2\x08\x07\x2a\x02\x08\x05"]
        )
        options = {"value.format": "protobuf", "value.schema.message": "air.Flight"}
        (train,) = rows(trains, **options)
        assert (train.id, train.kind, train.place.x, train._error) == (7, "PLANE", 5, None)

        properties = {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}
        properties = {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}
        car = {"type": "object", "properties": properties}
        number = registry.register(f"{cars}-value", json.dumps(car), kind="JSON")
        text = b'{"id":3,"day":"2024-02-29"}'
        write(bootstrap, cars, [b"\0" + number.to_bytes(4, "big") + text, text])
        good, bare = rows(cars, **{"value.format": "json"})
        assert (good.id, str(good.day)) == (3, "2024-02-29")
        assert (bare.id, bytes(bare.value)) == (None, text)


def test_values_are_written_and_registered_in_a_format(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    with registry_server() as registry:
        topic = make_topic(1)
        cluster = {"kafka.bootstrap.servers": bootstrap, "value.format": "avro"}
        cluster["value.schema.registry"] = registry.url
        rows = spark.sql(
            "select cast(id as string) as key, if(id = 1, null,"
            " struct(id, timestamp'2024-02-29 01:02:03' as at)) as value from range(3)"
        ).coalesce(1)
        rows.write.format("barnabas").mode("append").options(**cluster, topic=topic).save()
        assert registry.subjects == {f"{topic}-value": [1]}
        frame = spark.read.format("barnabas").options(**cluster, subscribe=topic).load()
        found = frame.selectExpr("data.*", "_error").orderBy("offset").collect()
        at = "2024-02-29 01:02:03"
        assert [(each.id, each.at and str(each.at), each._error) for each in found] == [
            (0, at, None), (None, None, None), (2, at, None)
        ]  # fmt: skip
        text = rows.selectExpr("cast(value as string) as value").write.format("barnabas")
        with pytest.raises(Exception, match=r"struct with value\.format avro"):
            text.mode("append").options(**cluster, topic=topic).save()
