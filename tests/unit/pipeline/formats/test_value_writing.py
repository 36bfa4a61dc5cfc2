"""What is written in a format is read back by the same schema, and a bad row is named."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import partialmethod
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.errors import OptionError, WriteRefusedError
from barnabas.pipeline.formats.resolved_schema import reader_schema
from barnabas.pipeline.formats.schema_registry import SchemaRegistry
from barnabas.pipeline.formats.value_options import write_value_options
from barnabas.pipeline.formats.writing.encoding import BadRowError
from barnabas.pipeline.formats.writing.writer_schema import WriterSchema, writer_schema
from barnabas.pipeline.options import ClusterOptions, SinkOptions, sink_options
from barnabas.pipeline.write.batch_encoder import BatchEncoder
from barnabas.record.decode import records_in
from tests.unit.pipeline.fake_cluster import BROKER
from tests.unit.pipeline.formats.descriptors import descriptor_set, flight_file, place_file
from tests.unit.pipeline.formats.registry_server import registry_server

AT = dt.datetime(2024, 2, 29, 12, 30, 0, 123456, dt.UTC)
COLUMNS = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("fare", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("late", pa.bool_()),
        ("share", pa.float64()),
    ]
)
FULL: dict[str, Any] = {
    "id": 2**60, "name": 'J "F", K', "fare": Decimal("-12.30"), "at": AT, "day": dt.date(2024, 2, 29),
    "late": False, "share": 0.1,
}  # fmt: skip
EMPTY: dict[str, Any] = {**dict.fromkeys(FULL), "name": ""}
DDL = (
    "id BIGINT, name STRING, fare DECIMAL(10,2), at TIMESTAMP, day DATE, late BOOLEAN, share DOUBLE"
)
NESTED = pa.struct(
    [
        ("a", pa.struct([("b", pa.list_(pa.int32()))])),
        ("m", pa.map_(pa.string(), pa.struct([("at", pa.timestamp("us", "UTC"))]))),
    ]
)
DEEP: dict[str, Any] = {"a": {"b": [1, None]}, "m": [("k", {"at": AT})]}


def writing(columns: pa.DataType, **options: str) -> WriterSchema:
    values = write_value_options({key.replace("_", "."): each for key, each in options.items()})
    assert values is not None
    return writer_schema(values, columns)


def encoded(schema: WriterSchema, columns: pa.DataType, rows: list[Any]) -> Any:
    return schema.encoder()(pa.array(rows, columns))


def read_back(columns: pa.DataType, values: Any, **options: str) -> list[Any]:
    schema = reader_schema({key.replace("_", "."): each for key, each in options.items()})
    assert schema is not None
    found = schema.decoder(columns)(values)
    assert found.errors.null_count == len(values), found.errors
    rows: list[Any] = found.data.to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json", "csv", "avro"])
def test_rows_come_back_as_they_were_written(name: str) -> None:
    schema = writing(COLUMNS, value_format=name)
    rows = [FULL, None, EMPTY]
    values = encoded(schema, COLUMNS, rows)
    text = schema.registered.text if schema.registered is not None else DDL
    assert read_back(COLUMNS, values, value_format=name, value_schema=text) == rows


def test_json_is_that_of_to_json() -> None:
    columns = pa.struct([("n", pa.int32()), ("b", pa.binary()), ("f", pa.float64()), *NESTED])
    values = encoded(
        writing(columns, value_format="json"),
        columns,
        [{"n": None, "b": b"\0x", "f": float("nan"), **DEEP}],
    )
    assert values.to_pylist() == [
        b'{"b":"AHg=","f":"NaN","a":{"b":[1,null]},"m":{"k":{"at":"2024-02-29T12:30:00.123456Z"}}}'
    ]


def test_avro_takes_columns_within_columns() -> None:
    schema = writing(NESTED, value_format="avro")
    rows = [DEEP, {"a": None, "m": None}]
    assert schema.registered is not None
    values = encoded(schema, NESTED, rows)
    found = read_back(NESTED, values, value_format="avro", value_schema=schema.registered.text)
    assert found == rows


FLIGHT = {"value_format": "protobuf", "value_schema_message": "air.Flight"}
MESSAGE = pa.struct(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("legs", pa.list_(pa.struct([("n", pa.int32())]))),
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("x", pa.int32())])),
        ("at", pa.timestamp("us", "UTC")),
        ("seats", pa.int64()),
        ("big", pa.decimal128(20, 0)),
    ]
)
TRAIN: dict[str, Any] = {
    "id": 7, "kind": "TRAIN", "legs": [{"n": 1}, {"n": 0}], "tags": [("a", 2**32 - 1)], "place": {"x": 5},
    "at": dt.datetime(1960, 1, 1, 0, 0, 0, 5, dt.UTC), "seats": 0, "big": Decimal(2**64 - 1),
}  # fmt: skip


def test_protobuf_messages_come_back_as_they_were_written() -> None:
    options = {**FLIGHT, "value_schema": descriptor_set(place_file(), flight_file())}
    values = encoded(writing(MESSAGE, **options), MESSAGE, [TRAIN, None])
    assert read_back(MESSAGE, values, **options) == [TRAIN, None]


@pytest.mark.parametrize(
    ("name", "columns", "row", "said"),
    [
        ("avro", {"id": "long", "n": "int"}, {"id": 1, "n": 2**31}, "value.n: .*2147483648"),
        ("avro", {"id": "long", "n": "int"}, {"id": None, "n": 1}, "value.id: None is no long"),
        ("protobuf", {}, {"kind": "BOAT"}, "value.kind: enum Kind has no 'BOAT'"),
        ("protobuf", {}, {"legs": [None]}, "value.legs: the list has a null"),
        ("protobuf", {}, {"tags": [("a", -1)]}, "value.tags: "),
    ],
)
def test_a_bad_row_is_named_with_its_column(
    name: str, columns: dict[str, str], row: dict[str, Any], said: str
) -> None:
    if name == "avro":
        fields = [{"name": each, "type": type_} for each, type_ in columns.items()]
        text = json.dumps({"type": "record", "name": "R", "fields": fields})
        type_ = pa.struct([(each, pa.int64()) for each in columns])
        schema = writing(type_, value_format="avro", value_schema=text)
        good: Any = {"id": 1, "n": 1}
    else:
        type_, good = MESSAGE, TRAIN
        text = descriptor_set(place_file(), flight_file())
        schema = writing(type_, **FLIGHT, value_schema=text)
    with pytest.raises(BadRowError, match=said) as caught:
        encoded(schema, type_, [good, None, good, {**good, **row}, good])
    assert caught.value.row == 3


@pytest.mark.slow
def test_the_error_of_a_task_counts_its_rows() -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})
    type_ = pa.struct([("n", pa.int64())])
    options = SinkOptions(
        ClusterOptions((BROKER,)),
        topic="t",
        writer_schema=writing(type_, value_format="avro", value_schema=text),
    )
    encoder = BatchEncoder(options, lambda _: 1, wall_ms=0, turn=4)

    def batch(*numbers: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"value": pa.array([{"n": n} for n in numbers], type_)})

    (first,) = encoder.encode(batch(1, 2))
    assert [each.value for each in records_in(bytes(first.data))] == [b"\x02", b"\x04"]
    with pytest.raises(WriteRefusedError, match=r"row 3 of task 4: value\.n: .*2147483648"):
        list(encoder.encode(batch(3, 2**31)))


def test_columns_that_do_not_fit_are_refused_before_a_row() -> None:
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "int"}, {"name": "o", "type": "int", "default": 5}],
    }
    avro = {"value_format": "avro", "value_schema": json.dumps(record)}
    only = pa.struct([("n", pa.int32())])
    assert encoded(writing(only, **avro), only, [{"n": 1}]).to_pylist() == [b"\x02\x0a"]
    with pytest.raises(OptionError, match=r"column value\.x is not in the schema"):
        writing(pa.struct([("n", pa.int32()), ("x", pa.int32())]), **avro)
    with pytest.raises(OptionError, match="value has no column n, which the schema needs"):
        writing(pa.struct([("o", pa.int32())]), **avro)
    with pytest.raises(OptionError, match="csv has plain columns only"):
        writing(NESTED, value_format="csv")
    with pytest.raises(OptionError, match="keys of an Avro map are strings"):
        writing(pa.struct([("m", pa.map_(pa.int32(), pa.int32()))]), value_format="avro")
    with pytest.raises(OptionError, match="no Avro schema"):
        writing(only, value_format="avro", value_schema='{"type": "thing"}')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"value.format": "yaml"}, "one of json, csv, avro, protobuf"),
        ({"value.schema": "n INT"}, "value.schema needs value.format"),
        ({"value.format": "json", "value.schema": "n INT"}, "not for writing json"),
        ({"value.format": "protobuf"}, "needs value.schema"),
        ({"value.format": "avro", "value.schema.version": "2"}, "needs value.schema.registry"),
        ({"value.format": "avro", "value.schema.registry": "http://h"}, "value.schema.subject"),
        ({"value.format": "csv", "value.schema.registry": "http://h"}, "not for csv"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        sink_options({"kafka.bootstrap.servers": "h:1", **options}, streaming=False)


@pytest.mark.slow
def test_a_writer_registers_its_schema_once() -> None:
    with registry_server() as registry:
        options = {"value_format": "avro", "value_schema_registry": registry.url, "topic": "t"}
        first = writing(COLUMNS, **options)
        again = writing(COLUMNS, **options)
        assert first.prefix == again.prefix == b"\0\0\0\0\x01"
        assert registry.subjects == {"t-value": [1]}
        values = encoded(first, COLUMNS, [FULL])
        reading = {**options, "subscribe": "t"}
        assert read_back(COLUMNS, values, **reading) == [FULL]

        registry.closed.add("t-value")
        with pytest.raises(OptionError, match="409 Schema being registered is incompatible"):
            writing(NESTED, **options)
        pinned = writing(COLUMNS, **options, value_schema_version="1")
        assert pinned.prefix == first.prefix
        with pytest.raises(OptionError, match="404"):
            writing(COLUMNS, **options, value_schema_version="9")

        json_options = {**options, "value_format": "json", "topic": "j"}
        values = encoded(writing(COLUMNS, **json_options), COLUMNS, [FULL])
        kinds = {each["schemaType"] for each in registry.by_id.values() if "schemaType" in each}
        assert kinds == {"JSON"}
        assert read_back(COLUMNS, values, **json_options, subscribe="j") == [FULL]


def test_a_protobuf_file_is_registered_behind_its_imports() -> None:
    with registry_server() as registry:
        options = {**FLIGHT, "value_schema_registry": registry.url, "topic": "t"}
        text = descriptor_set(place_file(), flight_file())
        schema = writing(MESSAGE, **options, value_schema=text)
        assert registry.subjects == {"place.proto": [1], "t-value": [2]}
        assert registry.by_id[2]["references"] == [
            {"name": "place.proto", "subject": "place.proto", "version": 1}
        ]
        assert schema.prefix == b"\0\0\0\0\x02\x02\x02"  # air.Flight is the second message
        values = encoded(schema, MESSAGE, [TRAIN])
        assert read_back(MESSAGE, values, **options, subscribe="t") == [TRAIN]
        pinned = writing(MESSAGE, **options, value_schema_version="latest")
        assert encoded(pinned, MESSAGE, [TRAIN]) == values


def test_a_registry_that_is_away_ends_a_write_before_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = SchemaRegistry.__init__
    monkeypatch.setattr(SchemaRegistry, "__init__", partialmethod(patient, patience_ms=0.0))
    with registry_server() as registry:
        url = registry.url
    with pytest.raises(OptionError, match="the schema registry does not answer"):
        writing(COLUMNS, value_format="avro", value_schema_registry=url, topic="t")
