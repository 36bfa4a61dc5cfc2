"""Records as a form describes them."""

from __future__ import annotations

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.console.cluster_views.new_record import bytes_in, headers_in, record_in


@pytest.mark.parametrize(
    ("text", "form", "data"),
    [
        ("", "text", b""),
        ("a\r\nb", "text", b"a\nb"),
        ('{"a": 1}', "json", b'{"a": 1}'),
        ("00 ff\n7f", "hex", b"\x00\xff\x7f"),
        ("ü", "text", b"\xc3\xbc"),
    ],
)
def test_a_field_becomes_bytes(text: str, form: str, data: bytes) -> None:
    assert bytes_in("the value", text, form) == data


@pytest.mark.parametrize(
    ("text", "form"),
    [("{", "json"), ("[" * 100_000, "json"), ("0", "hex"), ("xx", "hex"), ("", "csv")],
)
def test_a_field_that_is_not_of_its_form_is_refused(text: str, form: str) -> None:
    with pytest.raises(ValueError, match="the value"):
        bytes_in("the value", text, form)


def test_headers_are_lines_in_their_order() -> None:
    found = headers_in("b: 1\n\n a : x:y \nnone\nb:2")
    assert found == (("b", b"1"), ("a", b"x:y"), ("none", None), ("b", b"2"))
    with pytest.raises(ValueError, match="a header has a name"):
        headers_in(": value")


def test_a_record_has_no_key_and_no_value_where_the_form_has_none() -> None:
    assert record_in("t", {"null": "1", "value": "x"}) == ProducerRecord("t", None)
    assert record_in("t", {"value": "x", "key": "6b", "key_as": "hex", "partition": "3"}) == (
        ProducerRecord("t", b"x", b"k", 3)
    )


@pytest.mark.parametrize("partition", ["x", "99999999999", "1.5"])
def test_a_partition_that_is_no_number_is_refused(partition: str) -> None:
    with pytest.raises(ValueError, match="a partition is a number"):
        record_in("t", {"partition": partition})
