"""The interface between a connection and what finds out who its peer is: TLS or SASL.

A `TokenStage` begins without a principal (SASL). `Identified` and `Anonymous` have one from the start.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.wire.dispatch import ApiEntry
from barnabas.wire.request import Proof

ANONYMOUS = "User:ANONYMOUS"


class Authenticator(Protocol):
    """The stage before a connection's first request."""

    @property
    def principal(self) -> str | None:
        """``User:name``; None before authentication, while only the APIs of `entry` are served."""

    @property
    def proof(self) -> Proof: ...

    def entry(self, api_key: int) -> ApiEntry | None:
        """The entry that serves `api_key` in place of the listener's table, during and after
        authentication; None leaves it to the table. May close the connection."""


class Identified:
    """An `Authenticator` for a peer whose principal is known from TLS (its certificate)."""

    def __init__(self, principal: str) -> None:
        self.principal: str | None = principal
        self.proof = Proof.NONE if principal == ANONYMOUS else Proof.OWN

    def entry(self, api_key: int) -> ApiEntry | None:
        return None


class TokenStage(Authenticator, Protocol):
    """An `Authenticator` that begins without a principal (SASL), and bounds the frames before there is
    one."""

    @property
    def takes_raw_tokens(self) -> bool:
        """Whether the next frame is a token without a header (SaslHandshake v0)."""

    @property
    def frame_bytes_max(self) -> int: ...

    def on_raw_token(self, token: bytes) -> bytes | None:
        """The answer to a raw token; None where the connection is closed instead."""

    def on_closed(self) -> None: ...


class Anonymous:
    """An `Authenticator` that needs none: every connection is User:ANONYMOUS."""

    principal: str | None = ANONYMOUS
    proof = Proof.NONE

    def entry(self, api_key: int) -> ApiEntry | None:
        return None
