"""Values by a schema registry, which answers on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO

import fastavro
import pytest

from barnabas.cli.records import registered_values
from barnabas.cli.records.registered_values import RegisteredValues
from barnabas.console.cluster_views.record_search import REGISTRY, shown_record
from barnabas.pipeline.formats.framing import framed
from barnabas.pipeline.formats.protobuf_schema import class_of, message_of, pool_of
from barnabas.pipeline.formats.schema_registry import RegisteredSchema
from barnabas.record.decode import Record
from tests.unit.pipeline.formats.descriptors import base64_of, place_file
from tests.unit.pipeline.formats.registry_server import Registry, registry_server

AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "to", "type": "string"}, {"name": "delay", "type": ["null", "int"]}],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registry_server() as registry:
        registry.register("avro", json.dumps(AVRO))
        registry.register("protobuf", base64_of(place_file()), kind="PROTOBUF")
        registry.register("json", "{}", kind="JSON")
        registry.register("odd", "", kind="THRIFT")
        yield registry


def avro_value(number: int = 1) -> bytes:
    written = BytesIO()
    fastavro.schemaless_writer(written, AVRO, {"to": "<b>SFO", "delay": None})
    return framed(number) + written.getvalue()


def protobuf_value() -> bytes:
    pool, file = pool_of(RegisteredSchema("PROTOBUF", base64_of(place_file())))
    place = class_of(message_of(pool, file, "air.Place"))(x=7)
    return framed(2, [0]) + bytes(place.SerializeToString())


@pytest.mark.slow
def test_values_are_shown_as_their_schemas_say(registry: Registry) -> None:
    values = RegisteredValues(registry.url)
    for value, shown in (
        (avro_value(), {"to": "<b>SFO", "delay": None}),
        (protobuf_value(), {"x": 7}),
        (framed(3) + b'{"a": [1]}', {"a": [1]}),
    ):
        text, problem = values.text_of(value)
        assert (json.loads(text or ""), problem) == (shown, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        b"", b"\x00", b"text", avro_value(99), avro_value() + b"x", avro_value()[:-2],
        framed(2, [9]) + b"\x08\x07", framed(2) + b"\xff", framed(3) + b"{", framed(3) + b"[" * 90_000,
        framed(4) + b"x",
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_its_schema_says_why(registry: Registry, value: bytes) -> None:
    values = RegisteredValues(registry.url)
    text, problem = values.text_of(value)
    assert text is None
    assert problem
    assert values.text_of(avro_value())[0] is not None, "the next value is decoded all the same"


@pytest.mark.slow
def test_a_registry_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_values, "ANSWER_MS_MAX", 0.0)
    values = RegisteredValues("http://127.0.0.1:1")
    assert values.text_of(avro_value())[0] is None
    assert values.problem
    monkeypatch.setattr(RegisteredValues, "_decoded", None)
    assert values.text_of(avro_value()) == (None, values.problem)


@pytest.mark.slow
def test_a_record_without_a_schema_is_shown_as_it_is(registry: Registry) -> None:
    decode = RegisteredValues(registry.url).text_of
    shown = shown_record(0, Record(7, 1, b"k", b"plain", ()), REGISTRY, decode)
    assert (shown.value, shown.kind) == ("plain", "text")
    assert "no schema id" in shown.problem
    assert shown_record(0, Record(7, 1, b"k", avro_value(), ()), REGISTRY, decode).problem == ""
    assert shown_record(0, Record(7, 1, b"k", None, ()), REGISTRY, decode).kind == "null"
