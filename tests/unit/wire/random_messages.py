"""Random messages of any class and version, from the table of its fields and a seeded generator.

Fields that the version lacks keep their default, so that what is written is read back equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Field, Message

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED = {"uint16": 16, "uint32": 32}
OWN_TAGS = 10_000
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_.äß€😀"
CODES = sorted(int(code) for code in ErrorCode if code <= 133)
"""The codes that kio knows as well: those of Kafka 4.3."""


def messages() -> Iterator[type[Message]]:
    """Every request and response class, by API key."""
    for schema in API_SCHEMAS.values():
        for module, kind in (
            (schema.request_module, "Request"),
            (schema.response_module, "Response"),
        ):
            yield getattr(import_module(f"barnabas.wire.messages.{module}"), f"{schema.name}{kind}")


def versions_of(cls: type[Message]) -> range:
    return range(cls.VALID[0], cls.VALID[1] + 1)


def random_message(cls: type[Message], version: int, rng: Random) -> Any:
    """Without Barnabas' own tagged fields: no other codec knows them."""
    message = cls()
    for field in cls.FIELDS:
        if field.tag is not None and field.tag >= OWN_TAGS:
            continue
        if field.versions[0] <= version <= field.versions[1]:
            setattr(message, field.name, random_value(field, version, rng))
    return message


def random_value(field: Field, version: int, rng: Random) -> Any:
    nullable = field.nullable[0] <= version <= field.nullable[1]
    if nullable and rng.random() < 0.2:
        return None
    if not field.array:
        if field.tag is not None and rng.random() < 0.3 and (nullable or field.default is not None):
            struct = field.struct
            return field.default if struct is None or field.default is None else struct()
        return random_scalar(field, version, rng)
    count = rng.choice((0, 1, 1, 2, 3))
    return [random_scalar(field, version, rng) for _ in range(count)]


def random_scalar(field: Field, version: int, rng: Random) -> Any:
    kind = field.kind
    if kind == "struct":
        assert field.struct is not None
        return random_message(field.struct, version, rng)
    if kind == "bool":
        return rng.random() < 0.5
    if kind in BITS:
        return random_int(field, BITS[kind], rng)
    if kind in UNSIGNED:
        return rng.getrandbits(rng.choice((1, UNSIGNED[kind])))
    if kind == "float64":
        return rng.uniform(-1e9, 1e9)
    if kind == "uuid":
        return rng.randbytes(16)
    if kind == "string":
        return "".join(rng.choice(LETTERS) for _ in range(random_length(rng, 40)))
    return rng.randbytes(random_length(rng, 300 if kind == "bytes" else 3000))


def random_length(rng: Random, most: int) -> int:
    return rng.choice((0, 1, rng.randrange(most), rng.randrange(130)))


def random_int(field: Field, bits: int, rng: Random) -> int:
    if field.name == "error_code" or field.name.endswith("_error_code"):
        return rng.choice(CODES)
    # Readers of other people turn these into durations and dates, which are never negative.
    if field.name.endswith(("_ms", "timestamp")):
        return rng.getrandbits(rng.choice((1, 8, min(bits - 1, 40))))
    width = rng.choice((1, 7, bits))
    return rng.getrandbits(width) - (1 << (width - 1))
