"""``host.web``: which failures of a connection are tried again."""

from __future__ import annotations

import errno
import http.client
import ssl
from typing import Any

import pytest

from barnabas.host.web import HostWeb
from barnabas.ports import WebRequest
from tests.identity_provider import IdentityProvider

CONNECT = http.client.HTTPConnection.connect


def fetched(request: WebRequest) -> bytes:
    return HostWeb(lambda trust: ssl.create_default_context()).fetch(request)


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENETUNREACH, errno.EHOSTUNREACH])
def test_a_network_that_is_away_for_a_moment_is_tried_again(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreachable network ended the fetch at once, with an error that did not name the address."""
    failures = [OSError(code, "away"), OSError(code, "away")]

    def connect(connection: Any) -> None:
        if failures:
            raise failures.pop()
        CONNECT(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    with IdentityProvider() as provider:
        request = WebRequest(provider.jwks_url, retry_ms=1, retry_max_ms=5_000)
        assert b"keys" in fetched(request)
    assert not failures


def test_an_unreachable_network_is_named_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(connection: Any) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    request = WebRequest("http://192.0.2.1/keys", retry_ms=1, retry_max_ms=5)
    with pytest.raises(OSError, match=r"192.0.2.1/keys does not answer: Network is unreachable"):
        fetched(request)
