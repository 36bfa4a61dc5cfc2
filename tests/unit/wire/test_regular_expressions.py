"""Expressions for names match as Python's where both know the syntax, and their cost is bounded."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.regular_expressions import NameExpression
from tests.effort import examples


def matcher(pattern: str) -> Callable[[str], bool]:
    return NameExpression(pattern, "Pattern").matches


TEXTS = ["", "a", "ab", "abc", "aXc", "tx-1", "tx-12", "q_z", "]]a", "yyy", "a.b", "aaa", "b\n"]


@pytest.mark.parametrize(
    "pattern",
    [
        "abc", "a.*c", "(a|b)+", "(?:a|b)*c?", "tx-\\d{2,3}", "tx-\\d+", "[a-z]+_[^0-9]", "^tx-.*$",
        "a{3}", "a{2,}", "a{0,1}b", "[]a]+", "x?y*", ".*", "", "a\\.b", "[\\w-]+", "\\S*", "(|a)b",
        "a+?b", "[a\\-c]",
    ],
)  # fmt: skip
def test_a_pattern_matches_whole_ids_as_pythons_does(pattern: str) -> None:
    ours = matcher(pattern)
    theirs = re.compile(pattern, re.ASCII)
    for text in TEXTS:
        assert ours(text) == bool(theirs.fullmatch(text)), text


@settings(max_examples=examples(200))
@given(
    st.recursive(
        st.sampled_from(["a", "b", ".", "[ab]", "[^a]"]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
            inner.map(lambda one: f"({one})*"),
            inner.map(lambda one: f"({one}){{1,2}}"),
        ),
        max_leaves=6,
    ),
    st.text("abc", max_size=6),
)
def test_any_pattern_of_the_syntax_matches_as_pythons_does(pattern: str, text: str) -> None:
    assert matcher(pattern)(text) == bool(re.fullmatch(pattern, text))


@pytest.mark.parametrize(
    "pattern",
    ["(a", "a)", "[a", "a**", "*a", "a{2,1}", "a{1001}", "\\", "\\q", "(?=a)", "[b-a]",
     "((a{1000}){1000}){1000}", "\udcff"],
)  # fmt: skip
def test_a_pattern_out_of_the_syntax_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        matcher(pattern)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@settings(max_examples=examples(300))
@given(st.text(string.printable, max_size=12))
def test_no_text_as_a_pattern_raises_anything_else(pattern: str) -> None:
    try:
        matcher(pattern)("abc")
    except KafkaError as error:
        assert error.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_makes_others_try_for_ever_is_answered() -> None:
    assert not matcher("(a+)+b")("a" * 50_000)


def test_a_name_that_is_no_unicode_matches_no_pattern() -> None:
    assert not matcher(".*")("h\udcf6st")
