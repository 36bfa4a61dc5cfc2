"""Avro values by writer and reader schema: columns, evolution, framing, and bad values in their places."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import ssl
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from barnabas.cli.local.certificate_authority import Authority
from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.avro_schema import columns_of, parsed
from barnabas.pipeline.formats.json_schema import ddl_of
from barnabas.pipeline.formats.resolved_schema import ReaderSchema, reader_schema
from barnabas.pipeline.formats.schema_registry import (
    RegisteredSchema,
    RegistryError,
    SchemaRegistry,
)
from barnabas.pipeline.formats.value_options import RegistryOptions
from tests.unit.pipeline.formats.registry_server import Registry, registry_server

NESTED = b"[" * 200_000
"""JSON too deep to be read."""

FLIGHT: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": ["AA", "UA"]}},
        {"name": "other", "type": ["null", "Carrier"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "place", "type": ["null", {"type": "record", "name": "Place", "fields": [
            {"name": "x", "type": "float"}, {"name": "y", "type": ["null", "double"]}]}]},
    ],
}  # fmt: skip
ROW = {
    "id": 7,
    "carrier": "UA",
    "other": "AA",
    "at": dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    "day": dt.date(2024, 2, 29),
    "price": Decimal("12.50"),
    "tags": {"a": ["b", "c"]},
    "place": {"x": 1.5, "y": None},
}


def datum(schema: Any, row: Any, number: int | None = None) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    begin = b"" if number is None else b"\0" + number.to_bytes(4, "big")
    return begin + target.getvalue()


def arrow_of(schema: ReaderSchema) -> pa.DataType:
    """Without Spark: the types that its DDL has."""
    assert schema.registered is not None
    return columns_of(schema.registered).arrow


def test_each_type_becomes_its_column() -> None:
    found = reader_schema({"value.format": "avro", "value.schema": json.dumps(FLIGHT)})
    assert found is not None
    assert found.ddl == (
        "struct<`id`: bigint, `carrier`: string, `other`: string, `at`: timestamp, `day`: date,"
        " `price`: decimal(9,2), `tags`: map<string, array<string>>,"
        " `place`: struct<`x`: float, `y`: double>>"
    )
    wanted = arrow_of(found)
    values = pa.array([datum(FLIGHT, ROW), None], pa.binary())
    decoded = found.decoder(wanted)(values)
    row = decoded.data.to_pylist()[0]
    assert row | {"tags": dict(row["tags"])} == ROW
    assert decoded.data.to_pylist()[1] is None
    assert decoded.errors.to_pylist() == [None, None]


def test_bad_avro_values_keep_their_places() -> None:
    found = reader_schema({"value.format": "avro", "value.schema": json.dumps(FLIGHT)})
    assert found is not None
    good = datum(FLIGHT, ROW)
    rng = random.Random(5)
    values = [good, good[:-1], good + b"\0", b"", b"\xff" * 40]
    values += [bytes(rng.randrange(256) for _ in range(rng.randrange(60))) for _ in range(200)]
    values.append(good)
    decoded = found.decoder(arrow_of(found))(pa.array(values, pa.binary()))
    data, errors = decoded.data.to_pylist(), decoded.errors.to_pylist()
    assert [each is None for each in errors[:5]] == [True, False, False, False, False]
    assert data[-1]["id"] == data[0]["id"] == 7
    for row, error in zip(data, errors, strict=True):
        assert (row is None) == (error is not None)


def by_registry(registry: Registry, **more: str) -> ReaderSchema:
    options = {
        "subscribe": "flights", "value.format": "avro", "value.schema.registry": registry.url
    }  # fmt: skip
    found = reader_schema(options | {f"value.schema.{name}": each for name, each in more.items()})
    assert found is not None
    return found


def versions(registry: Registry) -> list[dict[str, Any]]:
    first = {"type": "record", "name": "F", "fields": [{"name": "id", "type": "int"},
             {"name": "gone", "type": "string"}]}  # fmt: skip
    second = {"type": "record", "name": "F", "fields": [{"name": "id", "type": "long"},
              {"name": "new", "type": "string", "default": "?"}]}  # fmt: skip
    for each in (first, second):
        registry.register("flights-value", json.dumps(each))
    return [first, second]


def test_writers_of_other_versions_are_resolved_to_the_reader() -> None:
    with registry_server() as registry:
        first, second = versions(registry)
        found = by_registry(registry)
        assert found.ddl == "struct<`id`: bigint, `new`: string>"
        values = [datum(first, {"id": 1, "gone": "x"}, 1), datum(second, {"id": 2, "new": "n"}, 2)]
        bad = [datum(second, {"id": 2, "new": "n"}, 99), b"\1\0\0\0\2abc", b"\0\0"]
        decoded = found.decoder(arrow_of(found))(pa.array(values * 50 + bad, pa.binary()))
        assert decoded.data.to_pylist()[:2] == [{"id": 1, "new": "?"}, {"id": 2, "new": "n"}]
        errors = decoded.errors.to_pylist()
        assert errors[:100] == [None] * 100
        assert errors[100] == "schema 99 is not in the registry"
        assert all("no schema id" in each for each in errors[101:])
        assert registry.asked.count("/schemas/ids/1") == 1
        # A version that is registered later changes nothing for this query; a query may name its version.
        third = {"type": "record", "name": "F", "fields": [{"name": "id", "type": "string"}]}
        number = registry.register("flights-value", json.dumps(third))
        decoded = found.decoder(arrow_of(found))(pa.array([datum(third, {"id": "s"}, number)]))
        assert decoded.data.null_count == 1
        assert decoded.errors[0].as_py()
        assert by_registry(registry, version="1").ddl == "struct<`id`: int, `gone`: string>"


def test_schemas_that_refer_to_others_are_fetched_with_them() -> None:
    with registry_server() as registry:
        place = {"type": "record", "name": "Place", "namespace": "air",
                 "fields": [{"name": "x", "type": "int"}]}  # fmt: skip
        registry.register("place", json.dumps(place))
        flight = {"type": "record", "name": "Flight", "namespace": "air", "fields": [
            {"name": "from", "type": "Place"}, {"name": "to", "type": ["null", "air.Place"]}]}  # fmt: skip
        reference = {"name": "air.Place", "subject": "place", "version": 1}
        number = registry.register("flights-value", json.dumps(flight), references=[reference])
        found = by_registry(registry)
        inlined = json.loads(json.dumps(flight))
        inlined["fields"][0]["type"] = place
        row = {"from": {"x": 1}, "to": None}
        decoded = found.decoder(arrow_of(found))(pa.array([datum(inlined, row, number)]))
        assert decoded.data.to_pylist() == [row]


@pytest.mark.slow
def test_a_registry_is_asked_again_until_it_answers() -> None:
    with registry_server("ann:secret") as registry:
        registry.register("s", json.dumps(FLIGHT))
        registry.fails = 3
        options = RegistryOptions((registry.url,), "ann", "secret")
        assert SchemaRegistry(options, serialized=False).by_id(1).kind == "AVRO"
        wrong = RegistryOptions((registry.url,), "ann", "no")
        with pytest.raises(RegistryError, match="401 Unauthorized"):
            SchemaRegistry(wrong, serialized=False).by_id(1)
        assert "secret" not in repr(options)
        within = RegistryOptions((registry.url.replace("://", "://ann:secret@"),))
        assert SchemaRegistry(within, serialized=False).by_id(1).kind == "AVRO"
        assert "secret@" not in repr(within)
        refused = RegistryOptions((registry.url.replace("://", "://ann:hush@"),))
        with pytest.raises(RegistryError, match="401 Unauthorized") as failed:
            SchemaRegistry(refused, serialized=False).by_id(1)
        assert "hush" not in str(failed.value)
        url = registry.url
    with pytest.raises(RegistryError, match="does not answer"):
        SchemaRegistry(RegistryOptions((url,)), serialized=False, patience_ms=50).by_id(1)


def test_a_deeply_nested_answer_of_a_registry_is_an_error() -> None:
    with registry_server() as registry:
        registry.register("s", json.dumps(FLIGHT))
        registry.content = NESTED
        once = SchemaRegistry(RegistryOptions((registry.url,)), serialized=False, patience_ms=0)
        with pytest.raises(RegistryError, match="does not answer"):
            once.by_id(1)
        with pytest.raises(RegistryError, match="schema 2 is not in the registry"):
            once.by_id(2)


def test_a_deeply_nested_schema_is_an_error() -> None:
    schema = RegisteredSchema("AVRO", NESTED.decode())
    with pytest.raises(PipelineError, match="this is no Avro schema: RecursionError"):
        parsed(schema)
    with pytest.raises(OptionError, match=r"value\.schema is no JSON"):
        columns_of(schema)
    with pytest.raises(OptionError, match="the JSON schema is no JSON"):
        ddl_of(schema.text)


def test_a_registry_is_reached_by_tls_with_certificates(tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority()
    files = {"ca": authority.pem, "server": authority.identity("registry").pem(),
             "client": authority.identity("client").pem("word"), "other": stranger.pem}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server")
    context.load_verify_locations(tmp_path / "ca")
    context.verify_mode = ssl.CERT_REQUIRED
    with registry_server(context=context) as registry:
        registry.register("s", json.dumps(FLIGHT))

        def ask(truststore: str, keystore: str = "", password: str = "") -> str:
            options = RegistryOptions(
                (registry.url,),
                truststore=str(tmp_path / truststore),
                keystore=keystore and str(tmp_path / keystore),
                key_password=password,
            )
            return SchemaRegistry(options, serialized=False, patience_ms=0).by_id(1).kind

        assert ask("ca", "client", "word") == "AVRO"
        with pytest.raises(RegistryError, match="CERTIFICATE_VERIFY_FAILED"):
            ask("other", "client", "word")
        with pytest.raises(RegistryError, match="does not answer"):
            ask("ca")
        with pytest.raises(RegistryError, match="cannot be used for TLS"):
            ask("ca", "nowhere")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"value.schema": "no JSON"}, "no Avro schema"),
        ({"value.schema": '"string"'}, "an Avro record"),
        ({"value.schema": '{"type":"record","name":"R","fields":[{"name":"a","type":["int","string"]}]}'},
         "has no column type"),
        ({"value.schema": '{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]}]}'},
         "contains itself"),
        ({"value.schema": "{}", "value.schema.message": "m"}, "for value.format protobuf"),
        ({"value.schema.registry": "127.0.0.1:8081"}, "http://host:8081"),
        ({"value.schema.registry": "http://h", "subscribe": "a,b"}, "value.schema.subject names"),
        ({"value.schema.registry.user": "u", "value.schema": "{}"}, "the registry's URL"),
        ({"value.schema.registry": "http://u:p@h"}, "no password in its URL"),
        ({}, "needs value.schema"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_used_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        reader_schema({"value.format": "avro", **given})
