"""The messages of OAUTHBEARER: a client's first one, and a server's error (RFC 7628, section 3).

    n,a=AUTHORIZATION-ID,^Aauth=Bearer TOKEN^Aextension=value^A^A

Source: Kafka's ``OAuthBearerClientInitialResponse`` and ``OAuthBearerSaslServer``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from barnabas.security import SaslError

SEPARATOR = "\x01"
ABORT = b"\x01"
"""Sent by a client after a server's error, to end the exchange."""
INVALID_TOKEN = '{"status":"invalid_token"}'
"""The server's answer to every token that it refuses. The reason is in its log."""
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST = re.compile(
    rf"n,(?:a=({_NAME}))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.DOTALL
)


class FirstMessage(NamedTuple):
    token: str
    authorization: str
    """The identity that the client wants to act as; empty for the token's own."""
    extensions: Mapping[str, str]

    def __repr__(self) -> str:
        return "FirstMessage(...)"


def format_first(token: str, extensions: Mapping[str, str] | None = None) -> bytes:
    """Encode a client's first message."""
    pairs = {"auth": f"Bearer {token}", **(extensions or {})}
    text = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs.items())
    return f"n,,{SEPARATOR}{text}{SEPARATOR}".encode()


def parse_first(data: bytes) -> FirstMessage:
    """Raises :class:`SaslError`."""
    try:
        match = _FIRST.fullmatch(data.decode())
    except UnicodeDecodeError as error:
        raise SaslError("Invalid OAUTHBEARER client first message") from error
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match.group(2).split(SEPARATOR) if pair)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    scheme, _, token = auth.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise SaslError("Invalid scheme in OAUTHBEARER client first message")
    name = (match.group(1) or "").replace("=2C", ",").replace("=3D", "=")
    return FirstMessage(token.strip(), name, pairs)
