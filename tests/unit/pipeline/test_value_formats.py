"""Values decoded in the worker: good ones as rows, bad ones as errors, each in its place."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.formats.decoding import Decoded
from barnabas.pipeline.read.value_formats import ValueFormat, decode_values

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
