"""SCRAM credentials as the metadata log has them: between records and what an exchange needs (KIP-554)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.security.jaas import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.security.scram import TYPES, ScramCredential

MECHANISM_OF = {number: mechanism for mechanism, number in TYPES.items()}
SIZES = {SCRAM_SHA_256: 32, SCRAM_SHA_512: 64}


def scram_credential(
    records: Mapping[tuple[int, str], Any], mechanism: str, user: str
) -> ScramCredential | None:
    """Of `user`, from the records by (mechanism's number, user)."""
    record = records.get((TYPES[mechanism], user))
    if record is None:
        return None
    return ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )
