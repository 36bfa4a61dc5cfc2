"""`/delegation_token/tokens/ID` and `/delegation_token/token_changes`: delegation tokens without their
secrets.

Source: ``DelegationTokenManagerZk``, KIP-48, KIP-373 (version 3, whose requester may be another than the
owner).
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.zookeeper.layout.config_znodes import desanitize, sanitize
from barnabas.zookeeper.layout.java_order import scala_immutable, scala_mutable
from barnabas.zookeeper.layout.json_bytes import JsonReader, to_json, utf8_text

TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE_PREFIX = f"{CHANGES}/token_change_"
VERSION = 3


@dataclass(frozen=True, slots=True)
class DelegationTokenZnode:
    """Principals are `User:alice`."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    @property
    def path(self) -> str:
        return f"{TOKENS}/{self.token_id}"

    def encode(self) -> bytes:
        fields = {
            "version": VERSION,
            "owner": sanitize(self.owner),
            "tokenRequester": sanitize(self.requester),
            "renewers": [sanitize(one) for one in self.renewers],
            "issueTimestamp": self.issue_ms,
            "maxTimestamp": self.max_ms,
            "expiryTimestamp": self.expiry_ms,
            "tokenId": self.token_id,
        }
        return to_json(scala_immutable(scala_mutable(fields)))

    @classmethod
    def decode(cls, path: str, data: bytes) -> DelegationTokenZnode:
        """Raises `MalformedZnode`."""
        fields = JsonReader.parse(path, data)
        version = fields.check_version(1, VERSION)
        owner = desanitize(fields.text("owner"))
        return cls(
            token_id=fields.text("tokenId"),
            owner=owner,
            requester=desanitize(fields.text("tokenRequester")) if version >= 3 else owner,
            renewers=tuple(desanitize(one) for one in fields.texts("renewers")),
            issue_ms=fields.integer("issueTimestamp", bits=64),
            max_ms=fields.integer("maxTimestamp", bits=64),
            expiry_ms=fields.integer("expiryTimestamp", bits=64),
        )

    @classmethod
    def of_record(cls, record: DelegationTokenRecord) -> DelegationTokenZnode:
        return cls(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def record(self) -> DelegationTokenRecord:
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=self.renewers,
            issue_timestamp=self.issue_ms,
            max_timestamp=self.max_ms,
            expiration_timestamp=self.expiry_ms,
            token_id=self.token_id,
        )


@dataclass(frozen=True, slots=True)
class TokenChangeZnode:
    """A sequential znode: the token has changed."""

    token_id: str
    name: str = ""

    @property
    def path(self) -> str:
        return f"{CHANGES}/{self.name}" if self.name else CHANGE_PREFIX

    def encode(self) -> bytes:
        return self.token_id.encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> TokenChangeZnode:
        return cls(utf8_text(path, data), path.removeprefix(f"{CHANGES}/"))
