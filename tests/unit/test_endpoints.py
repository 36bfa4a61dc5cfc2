"""Addresses as they are shown: an IPv6 address is in brackets before its port."""

from __future__ import annotations

import pytest

from barnabas.types import Endpoint


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
