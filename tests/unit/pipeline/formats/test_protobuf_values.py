"""Protobuf values by descriptor: columns, presence, message indexes, other versions, bad values."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.formats.protobuf_schema import class_of, column_of, message_of, pool_of
from barnabas.pipeline.formats.resolved_schema import ReaderSchema, reader_schema
from tests.unit.pipeline.formats.descriptors import (
    base64_of,
    descriptor_set,
    flight_file,
    place_file,
)
from tests.unit.pipeline.formats.registry_server import Registry, registry_server

MESSAGE = "air.Flight"


def descriptor_of(schema: ReaderSchema, name: str = MESSAGE) -> Any:
    assert schema.registered is not None
    pool, file = pool_of(schema.registered)
    return message_of(pool, file, name)


def flight(schema: ReaderSchema) -> Any:
    made = class_of(descriptor_of(schema))(id=7, kind=1, big=2**64 - 1)
    made.legs.add(n=1)
    made.legs.add()
    made.tags["a"] = 2**32 - 1
    made.place.x = 5
    made.at.FromDatetime(dt.datetime(2024, 2, 29, tzinfo=dt.UTC))
    made.seats.value = 0
    return made


def by_file() -> ReaderSchema:
    # The descriptor set of protoc without --include_imports: well-known files are there all the same.
    found = reader_schema(
        {
            "value.format": "protobuf",
            "value.schema": descriptor_set(place_file(), flight_file()),
            "value.schema.message": MESSAGE,
        }
    )
    assert found is not None
    return found


def decoded(schema: ReaderSchema, values: list[bytes | None]) -> Any:
    wanted = column_of(descriptor_of(schema)).arrow
    return schema.decoder(wanted)(pa.array(values, pa.binary()))


def test_each_field_becomes_its_column() -> None:
    schema = by_file()
    assert schema.ddl == (
        "struct<`id`: bigint, `kind`: string, `legs`: array<struct<`n`: int>>, `tags`: map<string, bigint>,"
        " `place`: struct<`x`: int>, `at`: timestamp, `seats`: bigint, `big`: decimal(20,0)>"
    )
    found = decoded(schema, [flight(schema).SerializeToString(), None, b""])
    row, null, empty = found.data.to_pylist()
    assert row == {
        "id": 7,
        "kind": "TRAIN",
        "legs": [{"n": 1}, {"n": 0}],
        "tags": [("a", 2**32 - 1)],
        "place": {"x": 5},
        "at": dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
        "seats": 0,
        "big": Decimal(2**64 - 1),
    }
    assert null is None
    assert (empty["id"], empty["place"], empty["seats"], empty["legs"]) == (0, None, None, [])


def test_bad_protobuf_values_keep_their_places() -> None:
    schema = by_file()
    good = flight(schema).SerializeToString()
    rng = random.Random(3)
    values: list[bytes | None] = [good, good[:-1]]
    values += [bytes(rng.randrange(256) for _ in range(rng.randrange(40))) for _ in range(300)]
    values.append(good)
    found = decoded(schema, values)
    data, errors = found.data.to_pylist(), found.errors.to_pylist()
    assert data[0] == data[-1]
    assert errors[1] is not None
    for row, error in zip(data, errors, strict=True):
        assert (row is None) == (error is not None)


def register(registry: Registry, *, with_gate: bool) -> int:
    if "place" not in registry.subjects:
        registry.register("place", base64_of(place_file()), kind="PROTOBUF")
    reference = {"name": "place.proto", "subject": "place", "version": 1}
    return registry.register(
        "flights-value",
        base64_of(flight_file(with_gate=with_gate)),
        kind="PROTOBUF",
        references=[reference],
    )


def test_a_registry_names_the_message_of_each_value() -> None:
    with registry_server() as registry:
        old = register(registry, with_gate=False)
        new = register(registry, with_gate=True)
        options = {
            "subscribe": "flights",
            "value.format": "protobuf",
            "value.schema.registry": registry.url,
            "value.schema.message": MESSAGE,
            "value.schema.version": "1",
        }
        schema = reader_schema(options)
        assert schema is not None
        newest = reader_schema(options | {"value.schema.version": "latest"})
        assert newest is not None
        body = flight(newest)
        body.gate = "B12"
        framed = [b"\0" + each.to_bytes(4, "big") for each in (old, new, 99)]
        values: list[bytes | None] = [
            framed[0] + b"\2\2" + flight(schema).SerializeToString(),
            framed[1] + b"\2\2" + body.SerializeToString(),
            framed[0] + b"\0",  # the first message of the file, which is another
            framed[0] + b"\4\2\0",  # one within it
            framed[0] + b"\4\2\x0e",
            framed[0] + b"\2",
            framed[2] + b"\2\2",
            b"{}",
            b"\0\0\0\0\1",
        ]
        found = decoded(schema, values)
        assert [each and each["id"] for each in found.data.to_pylist()] == [7, 7] + [None] * 7
        errors = found.errors.to_pylist()
        assert errors[2] == "a message air.Other, not air.Flight"
        assert "air.Flight.Leg" in errors[3]
        assert "no message [1, 7]" in errors[4]
        assert "not in the registry" in errors[6]
        assert None not in errors[2:]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"value.schema": "not base64!"}, "a descriptor set"),
        ({"value.schema": "AAAA"}, "names the Protobuf message"),
        ({"value.schema": "AAAA", "value.schema.message": "a"}, "no Protobuf descriptors"),
        ({"value.schema": descriptor_set(place_file()), "value.schema.message": "a.B"}, "no message a.B"),
        ({"value.schema": descriptor_set(flight_file()), "value.schema.message": MESSAGE},
         "imported and not there"),
    ],
)  # fmt: skip
def test_descriptors_that_cannot_be_used_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        reader_schema({"value.format": "protobuf", **given})
