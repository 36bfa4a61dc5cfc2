"""Tokens of pipelines as records of their topic have them."""

from __future__ import annotations

import pytest

from barnabas.console.cluster_views.pipeline_views import TokenView, token_of


def test_a_token_is_read_from_its_record() -> None:
    value = b'{"version": 2, "batch": 7, "query": "q", "run": "r", "planned": 1, "rows": 3, "tasks": {}}'
    assert token_of(b"barnabas-q", value, 5) == TokenView("barnabas-q", "q", 7, 3, 5)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"batch": 1}',
        b'{"batch": "x", "query": "q"}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_record_that_is_no_token_is_none(value: bytes | None) -> None:
    assert token_of(b"k", value, 0) is None
