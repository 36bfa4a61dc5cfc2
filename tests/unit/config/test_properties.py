"""Properties files are read and written as Java does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb = 2\nc:3\nd 4\ne\n", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
        ("# no\n  ! no\n\n\t \n a=b", {"a": "b"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=x\\\n# not a comment\nb=2", {"a": "x# not a comment", "b": "2"}),
        ("a\\ b\\=c=d\\te", {"a b=c": "d\te"}),
        ("a=\\u00e9\\u4E2D", {"a": "é中"}),
        ("a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a = = b ", {"a": "= b "}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_javas_syntax(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_a_broken_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")


characters = st.characters(exclude_categories=["Cs"])


@pytest.mark.slow
@given(st.dictionaries(st.text(characters, min_size=1), st.text(characters), max_size=6))
def test_written_properties_are_read_back(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values, "two\nlines")) == values
