"""Addresses as they are shown: an IPv6 address is in brackets before its port."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import barnabas
from barnabas.types import Endpoint

SOURCE = Path(barnabas.__file__).parent
BY_HAND = re.compile(r"host\}\]?:\{[^}]*port\}")
"""Host and port in a text, without the class that knows of brackets."""


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("::1", "[::1]:9092"),
        ("fe80::1%eth0", "[fe80::1%eth0]:9092"),
        ("127.0.0.1", "127.0.0.1:9092"),
        ("node-1.example", "node-1.example:9092"),
    ],
)
def test_an_ipv6_address_is_in_brackets(host: str, shown: str) -> None:
    assert str(Endpoint(host, 9092)) == shown


def test_no_address_is_put_together_by_hand() -> None:
    found = {path.name for path in SOURCE.rglob("*.py") if BY_HAND.search(path.read_text())}
    assert found == {"types.py"}
