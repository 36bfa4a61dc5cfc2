"""Values decoded in the worker: good ones as rows, bad ones as errors, each in its place."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.formats.decoding import Decoded
from barnabas.pipeline.formats.text_values import ValueFormat, decode_values

FIELDS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("place", pa.struct([("x", pa.float64())])),
    ]
)
BAD = [
    b"", b"  ", b"null", b"[1]", b"12", b'{"id":1', b'{"id":1}{"id":2}', b'{"id":1} null', b'{"id":"x"}',
    b'{"id":1.5}', b'{"name":"\xff"}', b'{"id":1,"id":2}', b'{"day":"never"}', b"}{", b'{"a":"}', b"{]}",
]  # fmt: skip


def json_of(values: list[bytes | None]) -> Decoded:
    return decode_values(pa.array(values, pa.binary()), ValueFormat("json", FIELDS))


def test_json_values_become_a_struct_column() -> None:
    found = json_of(
        [
            b'{"id":1,"name":"a","day":"2024-02-29","place":{"x":1.5},"more":[null]}',
            None,
            b'  {"name":\n "b}{" }\t',
            b"{}",
        ]
    )
    assert [each and each["id"] for each in found.data.to_pylist()] == [1, None, None, None]
    assert found.data.to_pylist()[1] is None
    assert found.data.to_pylist()[2]["name"] == "b}{"
    assert str(found.data.to_pylist()[0]["day"]) == "2024-02-29"
    assert found.data.to_pylist()[0]["place"] == {"x": 1.5}
    assert found.errors.null_count == 4


@pytest.mark.parametrize("seed", range(5))
def test_bad_values_keep_their_places_and_spoil_no_other(seed: int) -> None:
    rng = random.Random(seed)
    values: list[bytes | None] = [b'{"id":%d}' % n for n in range(200)]
    places = sorted(rng.sample(range(200), len(BAD)))
    for place, bad in zip(places, BAD, strict=True):
        values[place] = bad
    found = json_of(values)
    for row, (data, error) in enumerate(
        zip(found.data.to_pylist(), found.errors.to_pylist(), strict=True)
    ):
        if row in places:
            assert data is None
            assert error
        else:
            assert (data["id"], error) == (row, None)


def test_a_sliced_column_is_decoded_as_it_is_seen() -> None:
    values = pa.array([b"x", b'{"id":1}', None, b'{"id":2}', b"y"], pa.binary()).slice(1, 3)
    found = decode_values(values, ValueFormat("json", FIELDS))
    assert [each and each["id"] for each in found.data.to_pylist()] == [1, None, 2]


@pytest.mark.parametrize("rows", [[], [None, None], [b"bad", b"worse"]])
def test_a_lot_without_a_good_value_has_rows_all_the_same(rows: list[Any]) -> None:
    found = json_of(rows)
    assert found.data.to_pylist() == [None] * len(rows)
    assert [each is None for each in found.errors.to_pylist()] == [each is None for each in rows]


def test_csv_values_are_rows_without_a_header() -> None:
    fields = pa.schema([("id", pa.int64()), ("name", pa.string())])
    values = [b'1,"a,b"', b"x,y", None, b"2,", b"1,2,3", b'3,"open', b""]
    found = decode_values(pa.array(values, pa.binary()), ValueFormat("csv", fields))
    assert [each and each["id"] for each in found.data.to_pylist()] == [1, None, None, 2] + [
        None
    ] * 3
    assert found.data.to_pylist()[0]["name"] == "a,b"
    bad = [False, True, False, False, True, True, True]
    assert [each is not None for each in found.errors.to_pylist()] == bad


STAMPS = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("more", pa.list_(pa.struct([("at", pa.timestamp("us", "UTC"))]))),
        ("n", pa.int32()),
    ]
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nanoseconds_of_a_timestamp_are_truncated(seed: int) -> None:
    """Also among values that only microseconds can hold, and bad ones."""
    texts: list[str | None] = [
        "2024-02-29T12:00:00.123456789Z",
        "3024-01-01T00:00:00Z",
        None,
        "soon",
    ]
    wanted = ["2024-02-29 12:00:00.123456+00:00", "3024-01-01 00:00:00+00:00", None, None]
    places = [random.Random(seed).randrange(4) for _ in range(50)]
    values = [json.dumps({"at": texts[each]}).encode() for each in places]
    found = decode_values(pa.array(values, pa.binary()), ValueFormat("json", STAMPS))
    for place, data, error in zip(
        places, found.data.to_pylist(), found.errors.to_pylist(), strict=True
    ):
        assert (error is None) == (place < 3)
        assert str(data and data["at"]) == str(wanted[place])


def test_nanoseconds_within_lists_and_of_csv_are_truncated() -> None:
    value = b'{"more":[{"at":"2024-02-29T13:00:00.1234567+01:00"}],"n":7}'
    found = decode_values(pa.array([value], pa.binary()), ValueFormat("json", STAMPS))
    assert str(found.data.to_pylist()[0]["more"][0]["at"]) == "2024-02-29 12:00:00.123456+00:00"
    fields = pa.schema([("at", pa.timestamp("us", "UTC"))])
    rows = pa.array([b"2024-02-29T12:00:00.123456789Z"], pa.binary())
    found = decode_values(rows, ValueFormat("csv", fields))
    assert str(found.data.to_pylist()[0]["at"]) == "2024-02-29 12:00:00.123456+00:00"
