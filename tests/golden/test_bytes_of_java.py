"""Every message and version against the bytes that Kafka's own Java classes write.

`messages.json.gz` is written by ``make golden`` (``Golden.java`` beside this file, on Kafka 4.4.0's
jars): per line class, version, bytes, and the fields as Kafka's JSON converter tells them.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from barnabas.types import uuid_from_text
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.schema import Field, Message
from tools.generate_messages import snake

FILE = Path(__file__).with_name("messages.json.gz")
PACKAGES = {
    "wire.messages": ("Request", "Response"),
    "metadata.records": ("Record",),
    "group.records": ("Key", "Value"),
    "transaction.records": ("TransactionLogKey", "TransactionLogValue"),
}


def lines() -> Iterator[tuple[type[Message], int, bytes, dict[str, Any]]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        for line in file:
            name, version, data, told = json.loads(line)
            yield class_of(name.removesuffix("Data")), version, bytes.fromhex(data), told


def class_of(name: str) -> type[Message]:
    for package, endings in reversed(PACKAGES.items()):
        if name.endswith(endings):
            module = import_module(f"barnabas.{package}.{snake(name)}")
            cls: type[Message] = getattr(module, name)
            return cls
    raise AssertionError(name)


def build(cls: type[Message], told: dict[str, Any]) -> Message:
    """The message that Java's words describe; what they do not name keeps its default."""
    message = cls()
    fields = {field.name: field for field in cls.FIELDS}
    for name, value in told.items():
        if name.endswith("SizeInBytes"):
            field = fields[snake(name.removesuffix("SizeInBytes"))]
            setattr(message, field.name, bytes(i & 0xFF for i in range(value)))
            continue
        field = fields[snake(name)]
        if value is None:
            setattr(message, field.name, None)
        elif field.array:
            setattr(message, field.name, [convert(field, item) for item in value])
        else:
            setattr(message, field.name, convert(field, value))
    return message


def convert(field: Field, value: Any) -> Any:
    if field.kind == "struct":
        assert field.struct is not None
        return build(field.struct, value)
    if field.kind == "uuid":
        return uuid_from_text(value)
    if field.kind in ("bytes", "records"):
        return b64decode(value)
    return value


@pytest.mark.slow
def test_bytes_are_those_of_java_both_ways() -> None:
    seen: set[tuple[type[Message], int]] = set()
    for cls, version, data, told in lines():
        message = build(cls, told)
        assert encode_bytes(message, version).hex() == data.hex(), (cls, version, told)
        assert decode(cls, version, data) == message, (cls, version, told)
        seen.add((cls, version))
    assert len(seen) > 600


@pytest.mark.parametrize("package", ["wire.messages", "metadata.records", "group.records"])
def test_no_version_is_missing(package: str) -> None:
    seen: dict[type[Message], set[int]] = {}
    for cls, version, _, _ in lines():
        seen.setdefault(cls, set()).add(version)
    assert any(package in cls.__module__ for cls in seen)
    for cls, versions in seen.items():
        assert versions == set(range(cls.VALID[0], cls.VALID[1] + 1)), cls
