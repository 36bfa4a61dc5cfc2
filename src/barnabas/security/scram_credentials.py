"""SCRAM credentials as the metadata log has them, and those that a new cluster begins with.

Source: KIP-554; KIP-900 (``storage format --add-scram``), Kafka's ``ScramParser``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.jaas import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    TYPES,
    ScramCredential,
    credential_of,
    new_salt,
    salted_password,
)
from barnabas.types import is_int32

MECHANISM_OF = {number: mechanism for mechanism, number in TYPES.items()}
SIZES = {SCRAM_SHA_256: 32, SCRAM_SHA_512: 64}


def scram_credential(
    records: Mapping[tuple[int, str], Any], mechanism: str, user: str
) -> ScramCredential | None:
    """The credential of `user`, from the records by (mechanism's number, user)."""
    record = records.get((TYPES[mechanism], user))
    if record is None:
        return None
    return ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )


_ARGUMENT = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]")
_PART = re.compile(r'(\w+)=("[^"]*"|[^,]*)(?:,|$)')
_PARTS = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})


def parse_credential(text: str, random: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """``SCRAM-SHA-256=[name=alice,password=...]``, with ``iterations`` and ``salt`` where they are wished, or
    a ``saltedpassword`` with its ``salt``. Raises ``ValueError``, whose text has no secret."""
    match = _ARGUMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError("a SCRAM credential is SCRAM-SHA-256=[name=...,password=...], or -512")
    mechanism = match.group(1)
    parts = {part.group(1): part.group(2).strip('"') for part in _PART.finditer(match.group(2))}
    if unknown := sorted(set(parts) - _PARTS):
        raise ValueError(f"a SCRAM credential has no {unknown[0]}")
    if not parts.get("name"):
        raise ValueError("a SCRAM credential needs its name")
    if ("password" in parts) == ("saltedpassword" in parts):
        raise ValueError("a SCRAM credential needs either password or saltedpassword")
    given = parts.get("iterations", str(MIN_ITERATIONS))
    if not is_int32(given) or not MIN_ITERATIONS <= int(given) <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    iterations = int(given)
    if "saltedpassword" in parts and "salt" not in parts:
        raise ValueError("a saltedpassword needs its salt")
    salt = _bytes_of("salt", parts["salt"]) if "salt" in parts else new_salt(random)
    if "password" in parts:
        salted = salted_password(mechanism, parts["password"].encode(), salt, iterations)
    else:
        salted = _bytes_of("saltedpassword", parts["saltedpassword"])
        if len(salted) != SIZES[mechanism]:
            raise ValueError(f"a saltedpassword of {mechanism} has {SIZES[mechanism]} bytes")
    credential = credential_of(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=parts["name"],
        mechanism=TYPES[mechanism],
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def _bytes_of(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} must be base64") from error
